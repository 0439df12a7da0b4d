//! The exit codes of every verb. Code 2, wrong usage, is given by clap.

/// Everything asked for was done.
pub(crate) const DONE: u8 = 0;

/// Something failed, and a message said what; everything else was done.
pub(crate) const FAILED: u8 = 1;

/// The queue could not be started, or lost work: there is no result to rely on.
pub(crate) const NO_RESULT: u8 = 3;

/// The reader of standard output went away: what a shell reports for a process that SIGPIPE ended
/// (128 + 13).
pub(crate) const OUTPUT_CLOSED: u8 = 141;

/// Wrong usage, where clap cannot know it.
pub(crate) const USAGE: u8 = 2;

/// Some command of `cmwq run` failed: what xargs says.
pub(crate) const SOME_FAILED: u8 = 123;

/// A command exited with 255, which asks for an end: what xargs says.
pub(crate) const SAID_STOP: u8 = 124;

/// A command was ended by a signal: what xargs says.
pub(crate) const SIGNALLED: u8 = 125;

/// What shells report for a program that is there and cannot be started.
pub(crate) const NOT_STARTED: u8 = 126;

/// What shells report for a program that is not there.
pub(crate) const NOT_FOUND: u8 = 127;
