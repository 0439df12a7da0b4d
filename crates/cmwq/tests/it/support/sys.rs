//! The system calls that the tests need, made safe.

use std::ffi::CStr;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Root with what makes it root: in a container it may lack the right to favourable niceness
/// (`CAP_SYS_NICE`), or all others.
pub(crate) fn is_root() -> bool {
    const CAP_SYS_NICE: u32 = 23;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let may_be_nice = capabilities.is_none_or(|mask| mask >> CAP_SYS_NICE & 1 == 1);
    // SAFETY: takes nothing.
    may_be_nice && unsafe { libc::geteuid() == 0 }
}

/// Whether the program has privileges that whoever started it has not.
pub(crate) fn is_secure() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Sets an extended attribute of a file.
pub(crate) fn set_attribute(path: &CStr, name: &CStr, value: &[u8]) -> io::Result<()> {
    // SAFETY: strings, and bytes with their number.
    check(unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0)
    })
}

/// Ends the process as `main` does when it returns: with everything that is to be done at exit.
pub(crate) fn exit(code: i32) -> ! {
    std::process::exit(code)
}

/// Forks; the child plays `part` and ends, with 0 if that did not panic. Returns the child's exit
/// status, of which anything but 0 is a failure.
pub(crate) fn fork(part: impl FnOnce()) -> i32 {
    end_of(begin_child(part))
}

/// As [`fork`], but returns the child's number at once, for [`end_of`].
pub(crate) fn begin_child(part: impl FnOnce()) -> i32 {
    split().unwrap_or_else(|| {
        leave(std::panic::catch_unwind(std::panic::AssertUnwindSafe(part)).is_ok());
    })
}

/// Has `handler` called at each fork: before it, by whoever forks, and after it, by both.
pub(crate) fn at_forks(handler: extern "C" fn()) {
    // SAFETY: a function of this program.
    let refused = unsafe { libc::pthread_atfork(Some(handler), Some(handler), Some(handler)) };
    assert_eq!(refused, 0);
}

/// When a child that hangs is killed. Above the patience of single waits, which have better
/// messages, and below the time limit of its parent, which then says that it was the child.
const CHILD_TIME_LIMIT: u32 = 600;

/// Forks: the child's number, to the parent. The child, which is to [`leave`], has a time limit.
pub(crate) fn split() -> Option<i32> {
    // SAFETY: the child calls what a child of a process with threads may call here: this library
    // promises to work there, and the C library's allocator does.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork: {}", io::Error::last_os_error());
    if pid == 0 {
        alarm(CHILD_TIME_LIMIT);
    }
    (pid != 0).then_some(pid)
}

/// Ends a child at once: with 0 if all was well.
pub(crate) fn leave(is_well: bool) -> ! {
    // SAFETY: nothing of this process is used any more.
    unsafe { libc::_exit(i32::from(!is_well)) }
}

/// Waits for the end of a child, and returns its status.
pub(crate) fn end_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is writable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child, "{}", io::Error::last_os_error());
    status
}

/// From now on a thread of this process gets a signal each millisecond.
pub(crate) fn send_each_ms(tid: i32, signal: i32) {
    // SAFETY: plain data, for which zeroes are a value.
    let mut event: libc::sigevent = unsafe { zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = tid;
    event.sigev_signo = signal;
    let mut timer = std::ptr::null_mut();
    // SAFETY: both are readable or writable.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    check(made).unwrap();
    let ms = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let each = libc::itimerspec { it_interval: ms, it_value: ms };
    // SAFETY: the timer was just made; `each` is readable.
    check(unsafe { libc::timer_settime(timer, 0, &raw const each, std::ptr::null_mut()) }).unwrap();
}

pub(crate) fn gettid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// The CPU that the calling thread was on a moment ago.
pub(crate) fn current_cpu() -> u32 {
    // SAFETY: takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).expect("the kernel knows the CPU")
}

/// The CPUs that the calling thread may use, ascending.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    allowed_cpus_of(0).unwrap()
}

/// The CPUs that a thread may use, ascending.
pub(crate) fn allowed_cpus_of(tid: i32) -> io::Result<Vec<u32>> {
    // SAFETY: a mask is an array of numbers.
    let mut mask: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: `mask` is writable for the size that the call is told.
    check(unsafe { libc::sched_getaffinity(tid, size_of_val(&mask), &raw mut mask) })?;
    let all = 0..libc::CPU_SETSIZE as u32;
    // SAFETY: the number is below the size of the mask.
    Ok(all.filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &mask) }).collect())
}

/// Confines a thread of this process, 0 for the calling one, to `cpus`.
pub(crate) fn confine(tid: i32, cpus: &[u32]) -> io::Result<()> {
    // SAFETY: a mask is an array of numbers.
    let mut mask: libc::cpu_set_t = unsafe { zeroed() };
    for &cpu in cpus {
        assert!(cpu < libc::CPU_SETSIZE as u32);
        // SAFETY: the number is below the size of the mask.
        unsafe { libc::CPU_SET(cpu as usize, &mut mask) };
    }
    // SAFETY: `mask` is readable for the size that the call is told.
    check(unsafe { libc::sched_setaffinity(tid, size_of_val(&mask), &raw const mask) })
}

/// The CPU time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// As the system numbers clocks: of what the scheduler counts.
const SCHEDULED: i32 = 2;

/// The CPU time that a thread of this process has used.
pub(crate) fn cpu_time_of(tid: i32) -> Duration {
    const OF_THREAD: i32 = 4;
    clock((!tid << 3) | OF_THREAD | SCHEDULED)
}

/// The CPU time that a process has used that nobody has waited for yet.
pub(crate) fn cpu_time_of_process(pid: u32) -> Duration {
    clock((!pid.cast_signed() << 3) | SCHEDULED)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `now` is writable.
    check(unsafe { libc::clock_gettime(id, now.as_mut_ptr()) }).unwrap();
    // SAFETY: the call succeeded, so it has written `now`.
    let now = unsafe { now.assume_init() };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The nice level of the calling thread.
pub(crate) fn nice() -> i32 {
    // SAFETY: takes numbers only; -1 may be a level too, and no thread that exists gives an error.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, gettid() as libc::id_t) }
}

/// A level that whoever runs the tests may have, `steps` nicer than the process; by none, 0, which
/// is what it has.
pub(crate) fn nicer(steps: i32) -> i32 {
    // Who is started by nice(1), and not privileged, may not have less than that.
    if steps == 0 { 0 } else { (nice().max(0) + steps).min(19) }
}

/// Sets the nice level of the calling thread.
pub(crate) fn set_nice(nice: i32) -> io::Result<()> {
    set_nice_of(0, nice)
}

/// Sets the nice level of a thread of this process, 0 for the calling one.
pub(crate) fn set_nice_of(tid: i32, nice: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, nice) })
}

/// Makes a thread of this process one for batches, as `chrt --batch` does.
pub(crate) fn set_batch(tid: i32) -> io::Result<()> {
    set_class(tid, libc::SCHED_BATCH, 0)
}

/// Puts the calling thread into the idle class, as `chrt --idle` does.
pub(crate) fn set_idle() -> io::Result<()> {
    set_class(0, libc::SCHED_IDLE, 0)
}

/// Makes the calling thread a real-time one, with the lowest priority.
pub(crate) fn set_real_time() -> io::Result<()> {
    set_class(0, libc::SCHED_FIFO, 1)
}

fn set_class(tid: i32, class: i32, priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` is readable.
    check(unsafe { libc::sched_setscheduler(tid, class, &raw const param) })
}

/// The scheduling class and real-time priority of the calling thread.
pub(crate) fn policy() -> (i32, i32) {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: takes a number.
    let class = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` is writable.
    check(unsafe { libc::sched_getparam(0, &raw mut param) }).unwrap();
    (class, param.sched_priority)
}

/// Makes a descriptor's number lead to `file`, whatever it led to before.
pub(crate) fn put(file: &impl AsRawFd, number: i32) {
    // SAFETY: takes numbers; who had the descriptor is what the test is about.
    let put = unsafe { libc::dup2(file.as_raw_fd(), number) };
    assert_eq!(put, number, "{}", io::Error::last_os_error());
}

/// Whether writing there fails where it would have to wait.
pub(crate) fn set_nonblocking(file: &impl AsRawFd, is_nonblocking: bool) {
    let flags = if is_nonblocking { libc::O_NONBLOCK } else { 0 };
    // SAFETY: takes numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) }).unwrap();
}

/// A descriptor that leads to no file of its own: all of its kind, and others, have one inode.
pub(crate) fn event() -> OwnedFd {
    // SAFETY: takes numbers.
    let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    assert!(event >= 0, "{}", io::Error::last_os_error());
    // SAFETY: just made, and nobody else's.
    unsafe { OwnedFd::from_raw_fd(event) }
}

/// A resource limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Threads of this user.
    Threads,
    /// Descriptors of this process.
    Files,
    /// Bytes of a file that it writes.
    FileSize,
}

/// Sets the soft limit, and returns what it was.
pub(crate) fn set_limit(limit: Limit, value: u64) -> io::Result<u64> {
    let resource = match limit {
        Limit::Threads => libc::RLIMIT_NPROC,
        Limit::Files => libc::RLIMIT_NOFILE,
        Limit::FileSize => libc::RLIMIT_FSIZE,
    };
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limits` is writable.
    check(unsafe { libc::getrlimit(resource, &raw mut limits) })?;
    let before = limits.rlim_cur;
    limits.rlim_cur = value.min(limits.rlim_max);
    // SAFETY: `limits` is readable.
    check(unsafe { libc::setrlimit(resource, &raw const limits) })?;
    Ok(before)
}

/// Makes these system calls fail with `EPERM`, for the calling thread and the threads it creates
/// from now on.
pub(crate) fn refuse(syscalls: &[libc::c_long]) -> io::Result<()> {
    filter(syscalls, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, |program| {
        // SAFETY: `program` and the filter it points to are readable during the call.
        check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, program) })
    })
}

/// Makes these system calls hang, for all threads of the process.
pub(crate) fn hang(syscalls: &[libc::c_long]) -> io::Result<Hanging> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
        | libc::SECCOMP_FILTER_FLAG_TSYNC
        | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
    filter(syscalls, libc::SECCOMP_RET_USER_NOTIF, |program| {
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: as in `refuse`.
        let listener = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, program) };
        check(if listener < 0 { -1 } else { 0 })?;
        // SAFETY: a new descriptor of our own.
        Ok(Hanging(unsafe { OwnedFd::from_raw_fd(listener as libc::c_int) }))
    })
}

/// System calls that hang.
pub(crate) struct Hanging(OwnedFd);

impl Hanging {
    /// Whether somebody hangs.
    pub(crate) fn has_one(&self) -> bool {
        let mut fd = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one writable entry.
        unsafe { libc::poll(&raw mut fd, 1, 0) == 1 && fd.revents & libc::POLLIN != 0 }
    }

    /// Has them go on, now and later. The thread does nothing else any more.
    pub(crate) fn go_on(self) -> ! {
        let fd = self.0.as_raw_fd();
        loop {
            // SAFETY: numbers; all zero is what the system asks for.
            let mut call: libc::seccomp_notif = unsafe { zeroed() };
            // SAFETY: `call` is writable.
            if unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) } != 0 {
                continue;
            }
            // SAFETY: as above.
            let mut answer: libc::seccomp_notif_resp = unsafe { zeroed() };
            answer.id = call.id;
            answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            // SAFETY: `answer` is readable, and may be written to.
            unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
        }
    }
}

/// Makes a filter that has `action` follow from these calls, and hands it to `install`.
fn filter<T>(
    syscalls: &[libc::c_long],
    action: u32,
    install: impl FnOnce(*const libc::sock_fprog) -> io::Result<T>,
) -> io::Result<T> {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    let op = |code: u32, k: u32, jt: u8| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    // The number of the call is the first member of what a filter sees.
    let mut filter = vec![op(BPF_LD | BPF_W | BPF_ABS, 0, 0)];
    for (i, &nr) in syscalls.iter().enumerate() {
        let to_action = (syscalls.len() - i) as u8;
        filter.push(op(BPF_JMP | BPF_JEQ | BPF_K, nr as u32, to_action));
    }
    filter.push(op(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    filter.push(op(BPF_RET | BPF_K, action, 0));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    install(&raw const program)
}

/// How late timers of the calling thread may be: what its child processes begin with.
pub(crate) fn timer_slack_ns() -> i32 {
    // SAFETY: takes a number only.
    unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }
}

/// Hides /proc from the calling thread and the threads it creates from now on. For root only.
pub(crate) fn hide_proc() -> io::Result<()> {
    let (none, proc, tmpfs) = (c"none".as_ptr(), c"/proc".as_ptr(), c"tmpfs".as_ptr());
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: takes numbers only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // SAFETY: all strings end with a null; the unused pointers may be null.
    check(unsafe {
        libc::mount(none, c"/".as_ptr(), std::ptr::null(), private, std::ptr::null())
    })?;
    // SAFETY: as above.
    check(unsafe { libc::mount(tmpfs, proc, tmpfs, 0, std::ptr::null()) })
}

/// Kills this process if it is still there in so many seconds.
pub(crate) fn alarm(seconds: u32) {
    // SAFETY: takes a number.
    unsafe { libc::alarm(seconds) };
}

/// Lets `SIGPIPE` end the process, as in programs that are not Rust's.
pub(crate) fn heed_sigpipe() {
    // SAFETY: the default action installs no code.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Makes the process another user's, for good.
pub(crate) fn become_user(uid: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::setresuid(uid, uid, uid) })
}
