//! How many arguments a command has room for: the system limits its words and the environment
//! together, and each word.

use std::env;
use std::ffi::OsString;

use rustix::process::{Resource, getrlimit};

/// For each word, and each variable of the environment, the kernel also counts a pointer.
const POINTER: usize = size_of::<usize>();
/// LIMIT of the kernel: one word, with the zero at its end (`MAX_ARG_STRLEN`).
const WORD: usize = 128 << 10;
/// Of the limit of the stack the kernel lets words and environment have a quarter, but no less and
/// no more than this.
const LEAST: usize = 128 << 10;
const MOST: usize = 6 << 20;
/// POSIX has xargs leave it, so that commands can start others with the same words.
const SPARE: usize = 2 << 10;

/// In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Of all words.
    pub(super) all: usize,
    /// Of the longest among those that all arguments go into.
    pub(super) joined: usize,
}

/// What is left for arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(Size);

impl Size {
    /// Adds a word: one that all arguments go into, or not.
    pub(super) fn add(&mut self, len: usize, is_joined: bool) {
        self.all += len + 1 + POINTER;
        if is_joined {
            self.joined = self.joined.max(len + 1);
        }
    }

    /// Adds what a word becomes longer by, into which all arguments go.
    pub(super) fn grow(&mut self, len: usize) {
        self.all += len;
        self.joined = self.joined.max(len);
    }
}

impl Room {
    /// What the system leaves to a command that has this size without them, with our environment.
    pub(super) fn beside(command: Size) -> Self {
        let variable = |(name, value): (OsString, OsString)| name.len() + value.len() + 2 + POINTER;
        let environment: usize = env::vars_os().map(variable).sum();
        let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
        let most = usize::try_from(stack / 4).unwrap_or(usize::MAX).clamp(LEAST, MOST);
        Self::of(most.saturating_sub(environment + SPARE), command)
    }

    fn of(most: usize, command: Size) -> Self {
        let all = most.saturating_sub(command.all);
        Self(Size { all, joined: WORD.saturating_sub(command.joined) })
    }

    /// Takes so much of it. `false`: there is not so much.
    pub(super) fn take(&mut self, wanted: Size) -> bool {
        let Self(left) = self;
        let has_it = wanted.all <= left.all && wanted.joined <= left.joined;
        left.all = left.all.saturating_sub(wanted.all);
        left.joined = left.joined.saturating_sub(wanted.joined);
        has_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_their_pointers_are_counted_and_joined_ones_are_no_longer_than_one_may_be() {
        let word = |len, is_joined| {
            let mut size = Size::default();
            size.add(len, is_joined);
            size
        };
        let mut room = Room::of(100, word(11, false));
        assert!(room.take(word(30, false)) && room.take(word(32, false)));
        assert!(!room.take(word(0, false)), "{room:?}: 20, 39 and 41 are taken");
        let mut room = Room::of(MOST, word(WORD - 11, true));
        let mut more = Size::default();
        more.grow(5);
        assert!(room.take(more) && room.take(more));
        assert!(!room.take(more));
    }
}
