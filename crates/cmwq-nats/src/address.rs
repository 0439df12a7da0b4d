//! Addresses of servers, and who they say one is.

use percent_encoding::percent_decode_str;

/// A user and his password, or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    User(String, String),
    Token(String),
}

/// Parts an address from the login in it, as in `nats://user:password@host` and
/// `nats://token@host`. So it can be shown, and the client, which takes none from there, be told.
pub(crate) fn part(server: &str) -> (String, Option<Login>) {
    let scheme = server.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = server.split_at(scheme);
    let Some((login, host)) = rest.rsplit_once('@') else { return (server.to_owned(), None) };
    let login = match login.split_once(':') {
        Some((user, password)) => Login::User(decoded(user), decoded(password)),
        None => Login::Token(decoded(login)),
    };
    (format!("{scheme}{host}"), Some(login))
}

/// With the bytes that are written as `%40`.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_parted_from_addresses() {
        let user = |user: &str, password: &str| Some(Login::User(user.into(), password.into()));
        for (server, address, login) in [
            ("127.0.0.1:4222", "127.0.0.1:4222", None),
            ("nats://host", "nats://host", None),
            ("nats://me:secret@host:1", "nats://host:1", user("me", "secret")),
            ("me:p@ss@host", "host", user("me", "p@ss")),
            ("tls://m%65:%40%zz%@host", "tls://host", user("me", "@%zz%")),
            ("nats://t0ken@host", "nats://host", Some(Login::Token("t0ken".into()))),
            ("nats://me:@[::1]:4222", "nats://[::1]:4222", user("me", "")),
        ] {
            assert_eq!(part(server), (address.to_owned(), login), "{server}");
        }
    }
}
