//! One claimed item, from dropping the lock to the books behind it, by whomever runs it.

use cmwq_core::{Claim, Kick, WorkerId};

use crate::engine::meter::Meter;
use crate::engine::pool::{Holder, Locked, Pool};
use crate::os::sync::MutexGuard;
use crate::record::WorkerMirror;

/// As what a thread runs an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    /// As a worker of the pool. Books that are behind stay so, since waiting items are older than
    /// those of the inbox.
    Worker,
    /// As a helper or a rescuer, which finds right books and an empty inbox.
    Guest,
    /// As the context of the pool's CPU, the only one that runs anything there.
    Bh,
}

/// A thread that serves a pool.
pub(crate) struct Server<'a> {
    pub(crate) pool: &'static Pool,
    /// What it is called there.
    pub(crate) id: WorkerId,
    pub(crate) is: As,
    pub(crate) meter: &'a Meter,
    pub(crate) mirror: &'a WorkerMirror,
}

impl Server<'_> {
    /// Runs a claimed item: `call` calls its function. Returns with the lock held, under which the
    /// next item is claimed.
    #[inline(always)]
    pub(crate) fn run_item(
        &self,
        mut guard: MutexGuard<'static, Locked>,
        claim: &Claim,
        call: impl FnOnce(),
    ) -> MutexGuard<'static, Locked> {
        self.meter.turn_to(&mut guard.core, claim.pwq);
        guard.record_start(self.pool, self.mirror, claim);
        if self.is == As::Worker {
            let todo = guard.todo(self.pool, claim.kick, Holder::Claimer);
            drop(guard);
            self.pool.act(todo);
        } else {
            self.pool.unlock(guard, claim.kick);
        }
        call();
        let mut guard = self.lock();
        let effects = guard.core.finish(self.id);
        if effects.has_rest() {
            match self.is {
                // Emptying the inbox may have called for somebody.
                As::Guest => self.pool.unlock(guard, Kick::None),
                As::Worker | As::Bh => drop(guard),
            }
            self.pool.act_effects(effects);
            guard = Self::lock_again(self.pool, self.is);
        }
        guard
    }

    /// Between an end and the next claim: a helper may have taken items along meanwhile.
    #[cold]
    fn lock_again(pool: &'static Pool, is: As) -> MutexGuard<'static, Locked> {
        match is {
            As::Worker | As::Bh => pool.lock_only(),
            As::Guest => pool.lock_unlisted(),
        }
    }

    #[inline(always)]
    fn lock(&self) -> MutexGuard<'static, Locked> {
        match self.is {
            As::Worker => self.pool.lock_in_turn(),
            As::Guest => self.pool.lock_unlisted(),
            As::Bh => self.pool.lock_only(),
        }
    }
}
