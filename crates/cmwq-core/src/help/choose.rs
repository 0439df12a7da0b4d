//! Which pods to help, to ask and to watch, and where an item goes instead of its queuer's own
//! pod.
//!
//! Near pods come first: those of the same cache, of the same word, of the same node, then all.
//! Among equally near pods the next one after the asker comes first, round the word, so that no pod
//! is always asked first.

use super::board::{Board, Set};
use super::layout::{BITS, Position};
use super::short_items::Length;

/// The most pods that are visited for one event.
pub const TRIES: usize = 2;
/// The most pods that are asked at a tick to have their workers watched.
pub const WATCHED: usize = 8;

/// Whether any pod is in the set. May be `true` although none is, until a search has found none.
#[inline]
pub fn any<B: Board>(board: &B, set: Set) -> bool {
    let layout = board.layout();
    match layout.nr_words() {
        1 => board.word(set, 0) != 0,
        _ => (0..layout.nr_summaries()).any(|at| board.summary(set, at) != 0),
    }
}

/// Whether any pod has a CPU to spare, at once or when the thread that computes there waits. Then a
/// pod has to be asked for each item that waits. As sure as [`any`].
#[inline]
pub fn any_helper<B: Board>(board: &B) -> bool {
    any(board, Set::Spare) || any(board, Set::Reserve)
}

/// Whether another pod could take items of a pod over: one has a CPU to spare, and the items are
/// long enough for help. As sure as [`any`].
#[inline(always)]
pub fn may_be_helped<B: Board>(board: &B, has_short_items: impl FnOnce() -> bool) -> bool {
    any_helper(board) && !has_short_items()
}

/// Whether `me` wants help: it says that it has a backlog, which is more work than it may start and
/// takes long enough to be worth help. Then it asks others ([`to_ask`]), and has their workers
/// watched at each tick ([`to_watch`]).
///
/// To be asked once what has been decided about it is posted: the tick may just have found somebody
/// blocked, and woken somebody of the pod itself.
#[inline]
pub fn wants_help<B: Board>(board: &B, me: usize) -> bool {
    let position = board.layout().position(me);
    board.word(Set::Backlog, position.word) & position.mask() != 0
}

/// Whether `me` asks others now that its workers begin to be watched, or that one of them has
/// claimed an item: two pods must not ask each other for nothing, for ever.
#[inline]
pub fn asks<B: Board>(board: &B, me: usize) -> bool {
    wants_help(board, me) && any_helper(board)
}

/// Whether another pod than `me` has a backlog, so that a CPU which somebody leaves here matters.
/// As good as sure, unlike [`any`]: a summary's word is not taken for it. While nobody in the
/// process has nothing to do nobody searches, and a backlog of long ago would be looked out for
/// until somebody has.
///
/// This may take a word out of its summary, and a search at that moment misses a pod that has just
/// been put in. A caller that does not search next relies on the tick, which asks for help again
/// for each backlog.
#[inline]
pub fn others_wait<B: Board>(board: &B, me: usize) -> bool {
    any(board, Set::Backlog) && Nearest::new(board, Set::Backlog, me).next().is_some()
}

/// The pools that `me`, which has nothing to do, visits until one has
/// [work for it](crate::PoolState::has_backlog): of pods that may have such. `pool`: the pool of a
/// pod, if it has one; `inbox_is_empty`: whether nothing was pushed there.
#[inline]
pub fn to_visit<B: Board, P>(
    board: &B,
    me: usize,
    pool: impl Fn(usize) -> Option<P>,
    inbox_is_empty: impl Fn(&P) -> bool,
) -> impl Iterator<Item = P> {
    to_help(board, me).filter_map(move |pod| {
        let it = pool(pod)?;
        // A saturated pool does not know what is in its inbox.
        (wants_help(board, pod) || !inbox_is_empty(&it)).then_some(it)
    })
}

/// The pods that `me`, which has nothing to do, might help.
#[inline]
pub(crate) fn to_help<B: Board>(board: &B, me: usize) -> impl Iterator<Item = usize> {
    let found = Nearest::new(board, Set::Backlog, me);
    let tries = if may_be_wanted(board, me) { TRIES } else { 0 };
    found.chain(Nearest::new(board, Set::Saturated, me)).take(tries)
}

/// `false`: no pod wants help from `me`. Reads the same words as a search that finds none.
#[inline]
fn may_be_wanted<B: Board>(board: &B, me: usize) -> bool {
    let layout = board.layout();
    let position = layout.position(me);
    let nr_summaries = if layout.nr_words() == 1 { 0 } else { layout.nr_summaries() };
    [Set::Backlog, Set::Saturated].into_iter().any(|set| {
        board.word(set, position.word) & !position.mask() != 0
            || (0..nr_summaries).any(|at| board.summary(set, at) != 0)
    })
}

/// Which pod is asked to help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A pod that has a CPU to spare.
    Now(usize),
    /// A pod whose CPU is in use by a thread outside of the pools: the CPU's sentinel is to ask
    /// it.
    WhenIdle(usize),
}

/// The pods that `me`, which has a backlog, should ask until one comes: one pod for each backlog.
/// A pod that finds more than it can do asks the next one.
pub fn to_ask<B: Board>(board: &B, me: usize) -> impl Iterator<Item = Ask> {
    let spare = Nearest::new(board, Set::Spare, me).take(TRIES).map(Ask::Now);
    spare.chain(Nearest::new(board, Set::Reserve, me).take(1).map(Ask::WhenIdle))
}

/// How a driver asks other pods for help, on behalf of one with a backlog.
pub trait Asking {
    /// A pool of another pod.
    type Pool: Copy;

    /// The pool of a pod, made on first use. `None`: it cannot be had.
    fn pool(&mut self, pod: usize) -> Option<Self::Pool>;
    /// Whether a thread of the program computes on its CPU.
    fn caller_computes(&mut self, pool: Self::Pool) -> bool;
    /// Asks it, once its CPU is idle.
    fn ask_when_idle(&mut self, pool: Self::Pool);
    /// Asks it. `true`: somebody comes.
    fn ask(&mut self, pool: Self::Pool) -> bool;
}

/// [Asks](to_ask) other pods for help until somebody comes. Where a thread of the program computes
/// somebody may come later: then the next pod is asked, too. The board may lag, so whether one
/// computes is read from the pool.
pub fn ask_until_one_comes(asks: impl Iterator<Item = Ask>, driver: &mut impl Asking) {
    for ask in asks {
        let (Ask::Now(pod) | Ask::WhenIdle(pod)) = ask;
        let Some(pool) = driver.pool(pod) else { return };
        if driver.caller_computes(pool) {
            driver.ask_when_idle(pool);
        } else if driver.ask(pool) {
            return;
        }
    }
}

/// Where an item goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// To this pod.
    Pod(usize),
    /// To its usual one, since callers compute on every other. `Some(pod)`: the pod whose turn it
    /// is; the driver may check whether its caller still computes.
    Home(Option<usize>),
}

/// Where an item goes whose queuer computes on the CPU of `me`: to a pod whose CPU no caller
/// computes on, and that has a CPU to spare if possible. `turn`: chooses among the others if none
/// has.
pub fn instead_of<B: Board>(board: &B, me: usize, turn: usize) -> Instead {
    let layout = board.layout();
    let free = |word: usize| board.word(Set::Open, word) & !board.word(Set::CallerComputes, word);
    let is_free = |pod: &usize| {
        let position = layout.position(*pod);
        free(position.word) & position.mask() != 0
    };
    let position = layout.position(me);
    let here = board.word(Set::Spare, position.word) & free(position.word) & !position.mask();
    if here != 0 {
        let near = here & position.cache;
        let bit = behind(if near != 0 { near } else { here }, position.bit);
        return Instead::Pod(layout.pod(position.word, bit));
    }
    let spare = Nearest::elsewhere(board, Set::Spare, me).take(TRIES).find(is_free);
    if let Some(spare) = spare {
        return Instead::Pod(spare);
    }
    if let Some(next) = in_turn(board, me, turn, free) {
        return Instead::Pod(next);
    }
    let computed_on =
        |word: usize| board.word(Set::Open, word) & board.word(Set::CallerComputes, word);
    Instead::Home(in_turn(board, me, turn, computed_on))
}

/// The pod whose backlog an item joins whose queuer waits, if `me`, the pod of the queuer's CPU,
/// has more than it may start: the first one of the cache with a backlog. All pods of the cache
/// take from there as they become free, so that such items begin in the order of their coming; of
/// two backlogs the longer one would wait longer. Not that of a pod which is not [open](Set::Open):
/// nobody has named its CPU. `None`: `me`; also if items are shorter than [`Length::VeryLong`],
/// since all take one lock then.
pub fn collects<B: Board>(board: &B, me: usize, length: Length) -> Option<usize> {
    if length < Length::VeryLong {
        return None;
    }
    let layout = board.layout();
    let position = layout.position(me);
    let full = board.word(Set::Backlog, position.word) | board.word(Set::Saturated, position.word);
    let full = full & board.word(Set::Open, position.word);
    if full & position.mask() == 0 {
        return None;
    }
    let first = layout.pod(position.word, (full & position.cache).trailing_zeros());
    (first != me).then_some(first)
}

/// A pod of `set`, chosen by `turn`: a near one if there is one, else one of another word, which
/// `turn` chooses, too.
fn in_turn<B: Board>(
    board: &B,
    me: usize,
    turn: usize,
    set: impl Fn(usize) -> u64,
) -> Option<usize> {
    let layout = board.layout();
    let position = layout.position(me);
    let here = set(position.word) & !position.mask();
    let near = here & position.cache;
    if here != 0 {
        let bit = nth(if near != 0 { near } else { here }, turn);
        return Some(layout.pod(position.word, bit));
    }
    let nr_words = layout.nr_words();
    let others = (0..nr_words.min(TRIES)).map(|step| (turn + step) % nr_words);
    let mut others = others.filter(|&word| word != position.word);
    others.find_map(|word| {
        let bits = set(word);
        (bits != 0).then(|| layout.pod(word, nth(bits, turn / nr_words)))
    })
}

/// One of the set bits, chosen by `turn`.
fn nth(mut bits: u64, turn: usize) -> u32 {
    for _ in 0..turn % bits.count_ones() as usize {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}

/// The busy pods that are to have their workers watched, since one that blocks leaves a CPU for the
/// backlog of `me`. Some of them, other ones each `turn`: those of its own word at every other one,
/// if there are any. Of the other words two may be looked at before one has busy pods.
pub fn to_watch<B: Board>(board: &B, me: usize, turn: usize) -> impl Iterator<Item = usize> {
    let layout = board.layout();
    let (position, nr_words) = (layout.position(me), layout.nr_words());
    let busy = |word: usize| {
        let idle = board.word(Set::Spare, word) | board.word(Set::Reserve, word);
        let me = if word == position.word { position.mask() } else { 0 };
        board.word(Set::Open, word) & !idle & !me
    };
    let here = busy(position.word);
    // How many turns the own word has had, and the others.
    let (here_turn, others) = match (here, nr_words) {
        (_, 1) => (Some(turn), 0),
        (0, _) => (None, turn),
        _ => (turn.is_multiple_of(2).then_some(turn / 2), turn / 2),
    };
    let (word, mut bits, round) = if let Some(round) = here_turn {
        (position.word, here, round)
    } else {
        let next = (0..TRIES).map(|step| (others + step) % nr_words);
        let mut found = next.map(|word| (word, busy(word))).filter(|(_, busy)| *busy != 0);
        let (word, busy) = found.next().unwrap_or((position.word, 0));
        (word, busy, others / nr_words)
    };
    let nr_rounds = (bits.count_ones() as usize).div_ceil(WATCHED).max(1);
    for _ in 0..round % nr_rounds * WATCHED {
        bits &= bits.wrapping_sub(1);
    }
    Bits(bits).take(WATCHED).map(move |bit| layout.pod(word, bit))
}

/// The bits that are set, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = (self.0 != 0).then(|| self.0.trailing_zeros());
        self.0 &= self.0.wrapping_sub(1);
        bit
    }
}

/// The pods of a set without the asker, nearest first. Reads the board as it goes.
struct Nearest<'a, B> {
    board: &'a B,
    set: Set,
    position: Position,
    /// The current word, and what is left of it: the pods of the asker's cache, and the rest.
    word: usize,
    near: u64,
    rest: u64,
    /// What is left of the current summary: words of the asker's node, and the rest.
    node: u64,
    far: u64,
    /// The asker's own word was not empty, and has been read.
    has_seen_own: bool,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Nothing was read yet.
    Begin,
    /// So many summaries were read.
    Summaries(usize),
}

impl<'a, B: Board> Nearest<'a, B> {
    #[inline]
    fn new(board: &'a B, set: Set, me: usize) -> Self {
        let position = board.layout().position(me);
        let (word, stage) = (position.word, Stage::Begin);
        let has_seen_own = false;
        Self { board, set, position, word, near: 0, rest: 0, node: 0, far: 0, has_seen_own, stage }
    }

    /// Only those of other words.
    fn elsewhere(board: &'a B, set: Set, me: usize) -> Self {
        let stage = Stage::Summaries(0);
        Self { has_seen_own: true, stage, ..Self::new(board, set, me) }
    }

    /// Goes on to the next word, if there is one.
    fn advance(&mut self) -> Option<()> {
        let Stage::Summaries(nr_read) = self.stage else {
            let bits = self.board.word(self.set, self.word);
            self.has_seen_own = bits != 0;
            let bits = bits & !self.position.mask();
            (self.near, self.rest) = (bits & self.position.cache, bits & !self.position.cache);
            self.stage = Stage::Summaries(0);
            return Some(());
        };
        if self.board.layout().nr_words() == 1 {
            return None;
        }
        let from = self.word as u32 % BITS as u32;
        let words = if self.node != 0 { &mut self.node } else { &mut self.far };
        if *words == 0 {
            return self.read_summary(nr_read);
        }
        let bit = behind(*words, from);
        *words &= !(1 << bit);
        self.word = self.summary_at(nr_read - 1) * BITS + bit as usize;
        self.rest = self.read(self.word);
        Some(())
    }

    fn read(&self, word: usize) -> u64 {
        match self.board.word(self.set, word) {
            0 => self.board.retire(self.set, word),
            bits if word == self.position.word => bits & !self.position.mask(),
            bits => bits,
        }
    }

    /// The summary that is read after `nr_read` others.
    fn summary_at(&self, nr_read: usize) -> usize {
        (self.position.word / BITS + nr_read) % self.board.layout().nr_summaries()
    }

    fn read_summary(&mut self, nr_read: usize) -> Option<()> {
        let layout = self.board.layout();
        if nr_read == layout.nr_summaries() {
            return None;
        }
        let at = self.summary_at(nr_read);
        let mut words = self.board.summary(self.set, at);
        if nr_read == 0 && self.has_seen_own {
            words &= !(1 << (self.position.word % BITS));
        }
        let node = layout.node(self.position.word, at);
        (self.node, self.far) = (words & node, words & !node);
        self.stage = Stage::Summaries(nr_read + 1);
        Some(())
    }
}

impl<B: Board> Iterator for Nearest<'_, B> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.near == 0 && self.rest == 0 {
            self.advance()?;
        }
        let bits = if self.near != 0 { &mut self.near } else { &mut self.rest };
        let bit = behind(*bits, self.position.bit);
        *bits &= !(1 << bit);
        Some(self.board.layout().pod(self.word, bit))
    }
}

/// The first of the bits behind `bit`, round the word.
const fn behind(bits: u64, bit: u32) -> u32 {
    let from = (bit + 1) % BITS as u32;
    (bits.rotate_right(from).trailing_zeros() + from) % BITS as u32
}
