//! The idle-class sentinel: a thread per CPU that runs exactly when nothing else on that CPU can.
//!
//! It is armed while work waits. When it gets the CPU, the CPU has just gone idle although work
//! waits: it sends the pool's standby to verify, and parks. Rules, each paid for in measurements:
//! it holds **no lock** (a preempted idle-class holder would stop the pool for as long as the CPU
//! is busy), allocates nothing, decides nothing (under a CPU hog it gets a small share too, so it
//! may be wrong), and never spins.

use crate::crew::Crew;
use crate::notice::{self, Notice};
use crate::pool::{Pool, PoolKind};
use crate::sense;
use crate::sync::{AtomicPtr, AtomicU32, Futex, Mutex, Ordering, lock, without};
use crate::topo::CpuSet;

/// All sentinels, by CPU number.
#[derive(Debug)]
pub(crate) struct Sentinels {
    cpus: Box<[Sentinel]>,
    /// Serialises starting threads and publishing pools.
    setup: Mutex<()>,
}

#[derive(Debug)]
struct Sentinel {
    armed: Futex,
    state: AtomicU32,
    /// The pools whose workers may run on this CPU; replaced, never changed, and old ones are
    /// leaked: a pool is added a few times in a process's life.
    pools: AtomicPtr<Vec<&'static Pool>>,
}

const OFF: u32 = 0;
const ON: u32 = 1;
const REFUSED: u32 = 2;
const LEAVING: u32 = 3;

const SENTINEL_STACK: usize = 64 << 10;

impl Sentinels {
    pub(crate) fn new(cpus: &CpuSet) -> Self {
        let count = cpus.last().map_or(0, |last| last as usize + 1);
        let new = |_| Sentinel {
            armed: Futex::new(0),
            state: AtomicU32::new(OFF),
            pools: AtomicPtr::new(std::ptr::null_mut()),
        };
        Self { cpus: (0..count).map(new).collect(), setup: Mutex::new(()) }
    }

    /// Lets the CPU's sentinel run when the CPU has nothing else to do. One load if it is armed
    /// already.
    #[inline]
    pub(crate) fn arm(&self, cpu: u32) {
        let Some(sentinel) = self.cpus.get(cpu as usize) else { return };
        // ORDERING: no pairing for the load: a stale value arms once more or is caught by the tick.
        if sentinel.armed.word.load(Ordering::Relaxed) == 0
            && sentinel.armed.word.swap(1, Ordering::Release) == 0
        {
            sentinel.armed.wake(1);
        }
    }

    /// The CPU will never have a sentinel.
    pub(crate) fn is_refused(&self, cpu: u32) -> bool {
        let sentinel = self.cpus.get(cpu as usize);
        // ORDERING: no pairing: a hint that comes true at some time.
        sentinel.is_none_or(|sentinel| sentinel.state.load(Ordering::Relaxed) == REFUSED)
    }

    /// Lets all sentinels go, and starts no more.
    pub(crate) fn stop(&self) {
        let _setup = lock(&self.setup);
        for sentinel in &self.cpus {
            // ORDERING: no pairing of its own: ordered by `armed`.
            sentinel.state.store(LEAVING, Ordering::Relaxed);
            // ORDERING: Release pairs with the Acquire in `main`.
            sentinel.armed.word.swap(1, Ordering::Release);
            sentinel.armed.wake(1);
        }
    }

    /// Makes sure that the CPUs of `pool` have sentinels that know it. Creates threads: not for hot
    /// paths.
    #[cold]
    pub(crate) fn cover(&'static self, pool: &'static Pool) {
        let _setup = lock(&self.setup);
        if pool.is_away() {
            return;
        }
        let cpus = match pool.spec.kind {
            PoolKind::Cpu(cpu) => CpuSet::single(cpu),
            PoolKind::Managed => pool.spec.cpus.clone(),
            PoolKind::Unbound | PoolKind::Bh(_) => return,
        };
        for cpu in cpus.iter() {
            let Some(sentinel) = self.cpus.get(cpu as usize) else { continue };
            if sentinel.knows(pool) {
                continue;
            }
            sentinel.add(pool);
            // ORDERING: no pairing: written under `setup`, or by the thread itself for good.
            if sentinel.state.load(Ordering::Relaxed) == OFF {
                sentinel.start(cpu, &pool.runtime.crew);
            }
        }
    }
}

impl Sentinel {
    fn pools(&self) -> &[&'static Pool] {
        // ORDERING: Acquire pairs with the Release in `add`.
        let pools = self.pools.load(Ordering::Acquire);
        // SAFETY: null or a leaked vector that is never changed.
        unsafe { pools.as_ref() }.map_or(&[], Vec::as_slice)
    }

    fn knows(&self, pool: &'static Pool) -> bool {
        self.pools().iter().any(|known| std::ptr::eq(*known, pool))
    }

    fn add(&self, pool: &'static Pool) {
        let mut pools = self.pools().to_vec();
        pools.push(pool);
        // ORDERING: Release pairs with the Acquire in `pools`.
        self.pools.store(Box::into_raw(Box::new(pools)), Ordering::Release);
    }

    fn start(&'static self, cpu: u32, crew: &'static Crew) {
        // ORDERING: no pairing: see `cover`.
        self.state.store(ON, Ordering::Relaxed);
        let started =
            crew.spawn(&format!("cmwq/idle:{cpu}"), SENTINEL_STACK, move || self.main(cpu));
        if let Err(error) = started {
            self.refused(cpu, &error);
        }
    }

    fn refused(&self, cpu: u32, error: &std::io::Error) {
        self.state.store(REFUSED, Ordering::Relaxed);
        notice::once(Notice::SentinelRefused, || {
            format!(
                "no idle-class sentinel on CPU {cpu} ({error}); blocked workers there are told by the tick"
            )
        });
    }

    fn main(&self, cpu: u32) {
        let home = CpuSet::single(cpu);
        let ready =
            sense::sched::pin_current(&home).and_then(|()| sense::sched::enter_idle_class());
        if let Err(error) = ready {
            self.refused(cpu, &error);
            return;
        }
        loop {
            // ORDERING: Acquire pairs with the Release in `arm`, for the hints of the pools.
            while self.armed.word.swap(0, Ordering::Acquire) == 0 {
                self.armed.wait(0, None);
            }
            // ORDERING: no pairing of its own: ordered by `armed`.
            if self.state.load(Ordering::Relaxed) == LEAVING {
                return;
            }
            if sense::sched::current_cpu() != Some(cpu) {
                // Its CPU has left; if it is back, so is its sentinel.
                let _ = sense::sched::pin_current(&home);
            }
            for pool in self.pools() {
                if !without("taken.end") {
                    pool.set_taken(false);
                }
                if pool.is_watched() {
                    pool.alarm();
                }
            }
        }
    }
}
