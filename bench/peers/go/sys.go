package main

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic     = 1
	clockThreadCPUTime = 3
	prSetPdeathsig     = 1
	futexWaitPrivate   = 128
	futexWakePrivate   = 129
)

// dieWithParent leaves nothing behind when a run is interrupted.
func dieWithParent() {
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetPdeathsig, uintptr(syscall.SIGKILL), 0)
}

// clock reads a clock without telling Go's scheduler of a system call: it takes a fraction of a
// microsecond.
func clock(id uintptr) int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// now is comparable between threads.
func now() int64 { return clock(clockMonotonic) }

// burn burns CPU time. The goroutine may move to another thread in between, whose clock stands
// elsewhere: only steps that a single pass of the loop can have taken are counted.
func burn(cpuTime time.Duration) {
	const plausible = int64(100 * time.Microsecond)
	var burnt int64
	last := clock(clockThreadCPUTime)
	for burnt < int64(cpuTime) {
		now := clock(clockThreadCPUTime)
		if step := now - last; step > 0 && step < plausible {
			burnt += step
		}
		last = now
	}
}

// sleepInKernel blocks its thread, as any blocking system call or cgo call does.
func sleepInKernel(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}

// blockUntilReleased blocks its thread on a futex word until release or until the limit has passed.
func blockUntilReleased(word *uint32, limit time.Duration) {
	end := time.Now().Add(limit)
	for atomic.LoadUint32(word) == 0 {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(int64(left))
		syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, 0,
			uintptr(unsafe.Pointer(&ts)), 0, 0)
	}
}

func release(word *uint32) {
	atomic.StoreUint32(word, 1)
	syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate,
		1<<30, 0, 0, 0)
}
