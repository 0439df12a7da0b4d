//! One client: what has come, what has to go, and how long that may take. Knows no socket.

use std::time::{Duration, Instant};

use super::protocol::{GREETING, MAX_LINE, VERSION, one_line};

/// How much a client may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Clients at a time.
    pub(crate) connections: usize,
    /// For sending a request, and for taking its reply.
    pub(crate) patience: Duration,
}

impl Limits {
    // LIMIT: nobody needs more than one; a few that hang do not keep the next one out.
    pub(crate) const DEFAULT: Self = Self { connections: 8, patience: Duration::from_secs(30) };
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Session {
    /// At most a line, or as much as came with its end.
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Nothing more is read: it ends when all is sent.
    is_closing: bool,
    /// The client has said that nothing more comes.
    has_ended: bool,
    deadline: Instant,
    patience: Duration,
}

impl Session {
    pub(crate) fn new(pid: u32, limits: &Limits, now: Instant) -> Self {
        let output = format!("{GREETING} {VERSION} {pid}\n").into_bytes();
        let (input, patience) = (Vec::new(), limits.patience);
        let deadline = now + patience;
        Self { input, output, sent: 0, is_closing: false, has_ended: false, deadline, patience }
    }

    /// Whether more is to be read from the client: not while it has a reply to take.
    pub(crate) fn wants_input(&self) -> bool {
        !self.has_ended && self.may_go_on()
    }

    fn may_go_on(&self) -> bool {
        !self.is_closing && self.pending().is_empty()
    }

    /// What has to be sent.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    pub(crate) fn is_over(&self) -> bool {
        (self.is_closing || self.has_ended) && self.pending().is_empty()
    }

    /// Bytes that have come and are not answered.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kept(&self) -> usize {
        self.input.len()
    }

    /// When the client's time is up.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Ends with an error.
    pub(crate) fn refuse(&mut self, kind: &str, text: &str) {
        self.output.extend_from_slice(error_line(kind, text).as_bytes());
        self.is_closing = true;
    }

    /// Bytes have come. One request is answered at a time, and the next one when its reply is
    /// [sent](Self::has_sent).
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        answer: impl FnMut(&[u8]) -> String,
    ) {
        if !self.is_closing {
            self.input.extend_from_slice(bytes);
            self.go_on(now, answer);
        }
    }

    /// The client will send nothing more. What it has sent is answered; half a request is none.
    pub(crate) fn receive_end(&mut self) {
        self.has_ended = true;
    }

    /// So many bytes of [`pending`](Self::pending) are sent.
    pub(crate) fn has_sent(
        &mut self,
        count: usize,
        now: Instant,
        answer: impl FnMut(&[u8]) -> String,
    ) {
        self.sent += count;
        if self.pending().is_empty() {
            self.output = Vec::new();
            self.sent = 0;
            self.deadline = now + self.patience;
            self.go_on(now, answer);
        }
    }

    fn go_on(&mut self, now: Instant, mut answer: impl FnMut(&[u8]) -> String) {
        if !self.may_go_on() {
            return;
        }
        if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let rest = self.input.split_off(end + 1);
            let line = std::mem::replace(&mut self.input, rest);
            if end <= MAX_LINE {
                self.output.extend_from_slice(answer(&line[..end]).as_bytes());
                self.deadline = now + self.patience;
                return;
            }
        } else if self.input.len() <= MAX_LINE {
            return;
        }
        self.input = Vec::new();
        self.refuse("request", &format!("a line has at most {MAX_LINE} bytes"));
    }
}

/// The reply that something went wrong.
pub(crate) fn error_line(kind: &str, text: &str) -> String {
    format!("error {kind} {}\n", one_line(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { connections: 1, patience: Duration::from_secs(5) };

    fn echo(line: &[u8]) -> String {
        format!("<{}>\n", line.escape_ascii())
    }

    fn take(session: &mut Session, now: Instant) -> String {
        let mut taken = Vec::new();
        while !session.pending().is_empty() {
            let (some, now) = (session.pending().len().min(7), now);
            taken.extend_from_slice(&session.pending()[..some]);
            session.has_sent(some, now, echo);
        }
        String::from_utf8(taken).unwrap()
    }

    #[test]
    fn a_client_is_greeted_and_answered_line_by_line() {
        let now = Instant::now();
        let mut session = Session::new(42, &LIMITS, now);
        assert!(!session.wants_input(), "first it has to be greeted");
        assert_eq!(take(&mut session, now), "cmwq-control 1 42\n");
        session.receive(b"on", now, echo);
        assert!(session.pending().is_empty());
        session.receive(b"e\ntwo\nthr", now, echo);
        assert_eq!(session.pending(), b"<one>\n", "one at a time");
        assert!(!session.wants_input());
        assert_eq!(take(&mut session, now), "<one>\n<two>\n");
        session.receive_end();
        assert!(session.is_over(), "half a request is not answered");

        let mut session = Session::new(42, &LIMITS, now);
        take(&mut session, now);
        session.receive(b"one\ntwo\n", now, echo);
        session.receive_end();
        assert!(!session.is_over());
        assert_eq!(take(&mut session, now), "<one>\n<two>\n", "what came before the end counts");
        assert!(session.is_over());
    }

    #[test]
    fn long_lines_end_the_session() {
        let now = Instant::now();
        for long in [vec![b'x'; MAX_LINE + 1], [vec![b'x'; MAX_LINE + 1], b"\n".to_vec()].concat()]
        {
            let mut session = Session::new(1, &LIMITS, now);
            take(&mut session, now);
            session.receive(&long, now, echo);
            assert!(take(&mut session, now).starts_with("error request "));
            assert!(session.is_over());
        }
        let mut session = Session::new(1, &LIMITS, now);
        take(&mut session, now);
        session.receive(&[vec![b'x'; MAX_LINE], b"\n".to_vec()].concat(), now, echo);
        assert_eq!(take(&mut session, now).len(), MAX_LINE + 3);
    }

    #[test]
    fn only_whole_requests_and_replies_gain_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut session = Session::new(1, &LIMITS, start);
        take(&mut session, at(1));
        assert_eq!(session.deadline(), at(6));
        for second in 2..5 {
            session.receive(b"x", at(second), echo);
            assert_eq!(session.deadline(), at(6), "a byte gains nothing");
        }
        session.receive(b"\n", at(5), echo);
        assert_eq!(session.deadline(), at(10));
        session.has_sent(1, at(6), echo);
        assert_eq!(session.deadline(), at(10), "nor does taking a byte");
        take(&mut session, at(7));
        assert_eq!(session.deadline(), at(12));
    }

    proptest! {
        /// However bytes are cut, the lines are the same, and nothing is kept beyond a line.
        #[test]
        fn cuts_do_not_matter(
            bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..600),
            cuts in prop::collection::vec(1_usize..50, 1..40),
        ) {
            let now = Instant::now();
            let mut session = Session::new(1, &LIMITS, now);
            let greeting = take(&mut session, now);
            let (mut rest, mut replies) = (&bytes[..], String::new());
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (some, others) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                session.receive(some, now, echo);
                replies += &take(&mut session, now);
                rest = others;
            }
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
            let expected: String = lines.map(|line| echo(&line[..line.len() - 1])).collect();
            prop_assert_eq!(replies, expected);
            prop_assert!(greeting.starts_with(GREETING) && session.input.len() <= MAX_LINE);
        }
    }
}
