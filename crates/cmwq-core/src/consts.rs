//! The kernel's limits, and the thresholds of managed pools. Other limits stand where they are
//! used, marked `LIMIT:`. Values are the kernel's unless a line says otherwise.

/// Number of flush colours; one is always kept free, so 15 flushes can be outstanding.
pub const WORK_NR_COLORS: u8 = 16;
/// Largest `max_active` a queue may ask for.
pub const WQ_MAX_ACTIVE: u32 = 2048;
/// What `max_active` 0 means.
pub const WQ_DFL_ACTIVE: u32 = 1024;
/// Every node of an unbound queue may run at least this many items, or `max_active` if smaller, so
/// that interdependent items on one queue do not starve each other because of where they were
/// queued.
pub const WQ_DFL_MIN_ACTIVE: u32 = 8;
/// Idle workers above two are culled when there is at least one for every four busy ones.
pub const MAX_IDLE_WORKERS_RATIO: u32 = 4;
/// How long a surplus worker stays idle before it leaves: 300 s.
pub const IDLE_WORKER_TIMEOUT_NS: u64 = 300 * 1_000_000_000;
/// Pause after a worker could not be created, before the next attempt: 1 s.
pub const CREATE_COOLDOWN_NS: u64 = 1_000_000_000;
/// A pool whose work no worker has come for during this time calls the rescuers: 10 ms.
pub const MAYDAY_INITIAL_TIMEOUT_NS: u64 = 10_000_000;
/// The pool calls the rescuers again at this interval: 100 ms.
pub const MAYDAY_INTERVAL_NS: u64 = 100_000_000;
/// A rescuer that other pwqs wait for leaves a pwq when it has run more than so many of its items.
pub const RESCUER_BATCH: u32 = 16;
/// Buckets of the table of busy workers, keyed by item address.
pub const BUSY_WORKER_HASH_SIZE: usize = 64;
/// Greatest depth to which a work item can be disabled; one more saturates.
pub const WORK_DISABLE_MAX: u32 = (1 << 16) - 1;
/// An item that uses less of the CPU than this after it was found blocked is taken to end right
/// after its wait: 100 µs. Not the kernel's.
pub const COMPUTES_AFTER_WAIT_NS: u64 = 100_000;
/// After so many such items in a row the workers of a managed pool stay bound. Not the kernel's.
pub const MANY_SHORT_WAKES: u8 = 4;
/// An item that uses less of the CPU than this before it is found blocked waits first: 200 µs. Not
/// the kernel's.
pub const WAITS_FIRST_NS: u64 = 200_000;
/// An item that uses less than this before its wait, and at least as much after it, waits first,
/// too: 2 ms. Not the kernel's.
pub const WAITS_SOON_NS: u64 = 2_000_000;
/// After so many such items in a row a managed pool starts others although enough workers run. Not
/// the kernel's.
pub const MANY_FIRST_WAITS: u8 = 4;
/// A process that is found waiting so soon after its worker began to stand for it waits soon: 10
/// ms, since a look may come late. Not the kernel's.
pub const PROCESS_WAITS_SOON_NS: u64 = 10_000_000;
/// After so many such processes in a row an idle CPU is enough for one more to be started. Not the
/// kernel's.
pub const MANY_SOON_PROCESSES: u8 = 4;
/// When so many times as many workers run as may, an alarm causes a look again. Not the kernel's.
pub const ALARM_LIMIT_FACTOR: u32 = 3;
/// After so many claims in a row in which no batch was called back, a worker claims several items
/// at once; later batches are longer. Not the kernel's.
pub const CALM_CLAIMS: u8 = 4;
/// So many ticks in a row must find that work waits in a managed pool and nobody comes, until
/// others run it. Not the kernel's.
pub const TICKS_UNTIL_STARVED: u8 = 2;
