//! `--halt`: when enough has failed, succeeded or been done.

use std::str::FromStr;

use super::child::End;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Fail,
    Success,
    Done,
}

/// See the module header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// As xargs: at a command that exits with 255, is ended by a signal, or cannot be started.
    Usual,
    /// Never.
    Never,
    /// At the `count`th; `now`: those that run are ended.
    At { now: bool, what: What, count: u64 },
}

/// What follows from a command's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// Nothing starts any more.
    EndSoon,
    /// What runs is ended.
    EndNow,
}

/// How many have ended, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) done: u64,
    pub(super) failed: u64,
}

impl Halt {
    /// After a command that ended so, with which there are so many.
    pub(super) fn verdict(self, end: End, tally: Tally) -> Verdict {
        match self {
            Self::Never => Verdict::GoOn,
            Self::Usual => match end {
                End::Exit(255) | End::Signal(_) | End::NotFound | End::NotStarted => {
                    Verdict::EndSoon
                }
                End::Exit(_) | End::TimedOut => Verdict::GoOn,
            },
            Self::At { now, what, count } => {
                let so_far = match what {
                    What::Fail => tally.failed,
                    What::Success => tally.done - tally.failed,
                    What::Done => tally.done,
                };
                match (so_far >= count, now) {
                    (false, _) => Verdict::GoOn,
                    (true, false) => Verdict::EndSoon,
                    (true, true) => Verdict::EndNow,
                }
            }
        }
    }
}

impl FromStr for Halt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "write 'never', or WHEN,WHAT=COUNT with soon or now, and fail, success or done, as in \
             'now,fail=1'"
                .to_owned()
        };
        if text == "never" {
            return Ok(Self::Never);
        }
        let (when, rest) = text.split_once(',').ok_or_else(wrong)?;
        let (what, count) = rest.split_once('=').ok_or_else(wrong)?;
        let now = match when {
            "soon" => false,
            "now" => true,
            _ => return Err(wrong()),
        };
        let what = match what {
            "fail" => What::Fail,
            "success" => What::Success,
            "done" => What::Done,
            _ => return Err(wrong()),
        };
        let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
        Ok(Self::At { now, what, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_understood_or_refused() {
        assert_eq!("never".parse(), Ok(Halt::Never));
        let at = Halt::At { now: true, what: What::Fail, count: 3 };
        assert_eq!("now,fail=3".parse(), Ok(at));
        for text in
            ["", "now", "now,fail", "later,fail=1", "now,bad=1", "now,fail=0", "soon,done=x"]
        {
            assert!(text.parse::<Halt>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_counts_what_it_says() {
        let tally = Tally { done: 5, failed: 2 };
        let verdict = |text: &str| text.parse::<Halt>().unwrap().verdict(End::Exit(1), tally);
        assert_eq!(verdict("soon,fail=2"), Verdict::EndSoon);
        assert_eq!(verdict("now,fail=3"), Verdict::GoOn);
        assert_eq!(verdict("now,success=3"), Verdict::EndNow);
        assert_eq!(verdict("soon,success=4"), Verdict::GoOn);
        assert_eq!(verdict("soon,done=5"), Verdict::EndSoon);
        assert_eq!(verdict("never"), Verdict::GoOn);
    }

    #[test]
    fn without_a_word_it_is_as_for_xargs() {
        let verdict = |end| Halt::Usual.verdict(end, Tally { done: 1, failed: 1 });
        for end in [End::Exit(255), End::Signal(9), End::NotFound, End::NotStarted] {
            assert_eq!(verdict(end), Verdict::EndSoon, "{end:?}");
        }
        for end in [End::Exit(0), End::Exit(1), End::Exit(254), End::TimedOut] {
            assert_eq!(verdict(end), Verdict::GoOn, "{end:?}");
        }
    }
}
