//! The client's side of the control protocol: whatever a server says, it is a listing, a value or
//! an error.
//!
//! A case begins with a byte for what is asked and one for how the rest, which is what the server
//! says, is cut.

use std::io;
use std::time::{Duration, Instant};

use crate::control::for_fuzzing::{ClientError, Exchange, Request, Target, Transport};

/// A server that says this, and hears nothing.
struct Said<'a> {
    rest: &'a [u8],
    piece: usize,
}

impl Transport for Said<'_> {
    fn send(&mut self, bytes: &[u8], _: Instant) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn receive(&mut self, into: &mut [u8], _: Instant) -> io::Result<usize> {
        let count = self.rest.len().min(into.len()).min(self.piece);
        let (now, rest) = self.rest.split_at(count);
        into[..count].copy_from_slice(now);
        self.rest = rest;
        Ok(count)
    }
}

/// Asks, and checks what comes of the answer.
///
/// # Panics
/// If the outcome is not what it must be.
pub fn run(data: &[u8]) {
    let [asked, cut, said @ ..] = data else { return };
    let piece = usize::from(*cut) * 16 + 1;
    let mut exchange = Exchange::new(Said { rest: said, piece }, Duration::from_secs(3600));
    if asked & 8 == 0
        && let Err(error) = exchange.greet()
    {
        return check_error(&error);
    }
    let queue = Target::Queue("fuzz \u{e4}".to_owned());
    // Two answers of each kind: what is left of the first must not confuse the second.
    for _ in 0..2 {
        let outcome = match asked % 4 {
            0 => exchange.show(None).map(|listing| {
                assert!(listing.items.len() <= said.len() / 6);
                for item in &listing.items {
                    check_text(&item.attribute);
                    check_text(&item.mode);
                    check_text(&item.value);
                }
            }),
            1 => exchange.names().map(|names| assert!(names.len() <= said.len() / 3)),
            2 => exchange
                .value(&Request::Get(queue.clone(), "nice".to_owned()))
                .map(|v| check_text(&v)),
            _ => {
                let set = Request::Set(Target::Process, "cpumask".to_owned(), "f".to_owned());
                exchange.value(&set).map(|value| check_text(&value))
            }
        };
        if let Err(error) = outcome {
            check_error(&error);
        }
    }
}

fn check_error(error: &ClientError) {
    check_text(&error.to_string());
    assert!(!matches!(error, ClientError::Io(_)), "nothing broke: {error}");
}

fn check_text(text: &str) {
    assert!(!text.contains(char::is_control), "{text:?}");
}

#[test]
fn any_server_is_understood_or_refused() {
    super::cases::run(&super::cases::seeds("../../fuzz/seeds/control_client"), 20_000, run);
}
