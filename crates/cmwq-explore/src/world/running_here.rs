//! An item that is run by the thread that waits for it, where none waits before it.

use cmwq_core::{LockFor, Offered, PoolId, WorkerId};

use super::{Micro, Named, Progress, Tid, World};

impl World<'_> {
    pub(super) fn run_here(&mut self, tid: Tid, (item, queue, slot): (u8, u8, u8)) -> Progress {
        let micro = self.thread(tid).exec.micro;
        match micro {
            Micro::Start => {
                if !self.lets_in(tid, queue) || !self.owns(item) {
                    return self.done(tid);
                }
                let cpu_pwq = self.queues[usize::from(queue)].slots[usize::from(slot)];
                self.goes_on(tid, Micro::Claimed(cpu_pwq))
            }
            Micro::Claimed(cpu_pwq) => self.offer(tid, (item, queue), cpu_pwq),
            Micro::RunsHere(cpu_pwq, guest) => {
                self.lock_all(LockFor::Decide);
                let pool = self.queues[usize::from(queue)].made[cpu_pwq].pool;
                self.end_here(tid, item, pool, guest)
            }
            Micro::Waiting if self.ledger.has_settled(item) => self.done(tid),
            Micro::Waiting => Progress::Blocked,
            _ => unreachable!("{micro:?}"),
        }
    }

    fn offer(&mut self, tid: Tid, (item, queue): (u8, u8), cpu_pwq: usize) -> Progress {
        let at = self.queues[usize::from(queue)].made[cpu_pwq];
        let pointer = self.item_at(usize::from(item));
        let pool = &mut self.pools[at.pool.0 as usize];
        let core = pool.lock(LockFor::Queue);
        let guest = core.guest_enter();
        self.ledger.queue(item, queue, at);
        // SAFETY: items stay where they are as long as the world; PENDING is ours.
        match unsafe { core.offer(guest, at.pwq, pointer) } {
            Offered::Begun(claim) => {
                self.ledger.start(Named::Item(item), at);
                self.unlock(tid, at.pool.0 as u8, claim.kick);
                self.goes_on(tid, Micro::RunsHere(cpu_pwq, guest))
            }
            Offered::Queued(kick) => {
                let kick = kick.or(core.guest_leave(guest));
                self.unlock(tid, at.pool.0 as u8, kick);
                self.goes_on(tid, Micro::Waiting)
            }
        }
    }

    fn end_here(&mut self, tid: Tid, item: u8, pool: PoolId, guest: WorkerId) -> Progress {
        let core = &mut self.pools[pool.0 as usize].core;
        let effects = core.finish(guest);
        self.ledger.end(Named::Item(item));
        assert!(core.guest_may_leave(guest), "something is behind an item that nobody knows");
        let kick = core.guest_leave(guest);
        self.unlock(tid, pool.0 as u8, kick);
        let _ = self.put_off(tid, &effects);
        self.done(tid)
    }
}
