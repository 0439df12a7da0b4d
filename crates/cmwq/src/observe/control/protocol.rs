//! What is said over the socket: requests and replies, each a line. [`control`](super) says which.

use std::fmt::Write as _;

/// LIMIT: the longest line of a client, in bytes, as the longest write to a file of sysfs.
pub(crate) const MAX_LINE: usize = 4096;

/// The first word of the server's first line.
pub const GREETING: &str = "cmwq-control";
/// Changes when a client of the former version would misunderstand.
pub const VERSION: u32 = 1;

/// Whose attributes are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Those of all unbound queues together, see
    /// [`GlobalAttribute`](crate::observe::sysfs::GlobalAttribute).
    Process,
    /// Those of the queue of this name.
    Queue(String),
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The names of all queues.
    Names,
    /// All attributes of these, or of all.
    Show(Option<Target>),
    /// An attribute.
    Get(Target, String),
    /// An attribute and its value.
    Set(Target, String, String),
}

impl Target {
    fn parse(field: &str) -> Result<Self, &'static str> {
        match field {
            "." => Ok(Self::Process),
            _ => unescape(field).map(Self::Queue),
        }
    }

    pub(super) fn field(&self) -> String {
        match self {
            Self::Process => ".".to_owned(),
            Self::Queue(name) => escape(name),
        }
    }
}

impl Request {
    /// Reads a line, without its end.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, &'static str> {
        let line = std::str::from_utf8(line).map_err(|_| "a request is UTF-8")?;
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.contains(|c: char| c.is_control() && c != '\t') {
            return Err("a request has no control characters");
        }
        let mut fields = line.splitn(4, ' ');
        let verb = fields.next().unwrap_or_default();
        let mut rest = [(); 3].map(|()| fields.next());
        if rest[..2].iter().flatten().any(|field| field.is_empty()) {
            return Err("one space between fields");
        }
        let target = rest[0].take().map(Target::parse).transpose()?;
        match (verb, target, rest[1], rest[2]) {
            ("names", None, None, None) => Ok(Self::Names),
            ("show", target, None, None) => Ok(Self::Show(target)),
            ("get", Some(target), Some(attribute), None) => {
                Ok(Self::Get(target, attribute.to_owned()))
            }
            ("set", Some(target), Some(attribute), value) => {
                let value = value.ok_or("set NAME ATTRIBUTE VALUE")?;
                Ok(Self::Set(target, attribute.to_owned(), value.to_owned()))
            }
            ("names" | "show" | "get" | "set", ..) => Err("too few or too many fields"),
            _ => Err("a request begins with names, show, get or set"),
        }
    }

    /// The line for it, with its end.
    pub fn line(&self) -> String {
        match self {
            Self::Names => "names\n".to_owned(),
            Self::Show(None) => "show\n".to_owned(),
            Self::Show(Some(target)) => format!("show {}\n", target.field()),
            Self::Get(target, attribute) => format!("get {} {attribute}\n", target.field()),
            Self::Set(target, attribute, value) => {
                format!("set {} {attribute} {value}\n", target.field())
            }
        }
    }
}

/// A name as one field.
pub(super) fn escape(name: &str) -> String {
    if name == "." {
        return "%2E".to_owned();
    }
    let mut field = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"_-+:/.@".contains(&byte) {
            field.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(field, "%{byte:02X}");
        }
    }
    field
}

/// The name in a field.
///
/// # Errors
/// If no name is written so.
pub fn unescape(field: &str) -> Result<String, &'static str> {
    let mut name = Vec::new();
    let mut bytes = field.bytes();
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match byte {
            b'%' => {
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let (high, low) = high.zip(low).ok_or("% and two hexadecimal digits in a name")?;
                name.push((high << 4 | low) as u8);
            }
            byte => name.push(byte),
        }
    }
    String::from_utf8(name).map_err(|_| "a name is UTF-8")
}

/// A text as it may stand in a line.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_lines() {
        let queue = |name: &str| Target::Queue(name.to_owned());
        let set =
            |name, value: &str| Request::Set(queue(name), "nice".to_owned(), value.to_owned());
        for (line, request) in [
            ("names", Request::Names),
            ("show", Request::Show(None)),
            ("show .\r", Request::Show(Some(Target::Process))),
            ("show %2E", Request::Show(Some(queue(".")))),
            ("get a%20b nice", Request::Get(queue("a b"), "nice".to_owned())),
            ("set disk nice -3", set("disk", "-3")),
            ("set disk nice ", set("disk", "")),
            ("set disk nice default (cache)", set("disk", "default (cache)")),
        ] {
            assert_eq!(Request::parse(line.as_bytes()).as_ref(), Ok(&request), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for line in [
            &b""[..],
            b" ",
            b"reboot",
            b"NAMES",
            b"names now",
            b"show a b",
            b"get a",
            b"get  a",
            b"set a nice",
            b"set a  5",
            b"get % nice",
            b"get %2 nice",
            b"get %zz nice",
            b"get %ff nice",
            b"\xff\xfe",
            b"set a nice \x1b[31m",
            b"set a nice 5\0",
        ] {
            assert!(Request::parse(line).is_err(), "{}", line.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(line in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(request) = Request::parse(&line) {
                let again = request.line();
                let again = again.trim_end_matches('\n').as_bytes();
                prop_assert_eq!(Request::parse(again), Ok(request));
            }
        }

        #[test]
        fn any_name_survives(name in any::<String>()) {
            let field = escape(&name);
            prop_assert!(field != "." && field.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(unescape(&field), Ok(name));
        }

        #[test]
        fn nearly_requests_do_not_panic(
            verb in "(names|show|get|set|x)",
            fields in prop::collection::vec("[ -~%.]{0,9}", 0..5),
        ) {
            let line = format!("{verb} {}", fields.join(" "));
            let _ = Request::parse(line.as_bytes());
        }
    }
}
