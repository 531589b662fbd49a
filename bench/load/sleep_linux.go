package load

import (
	"syscall"
	"time"
	"unsafe"
)

// Linux lets a thread oversleep by its timer slack, 50 µs unless it is told
// otherwise: prctl(2), PR_SET_TIMERSLACK, in nanoseconds, 0 for the default.
const setTimerSlack = 29

// Policies of sched_setscheduler(2). A thread of schedFIFO runs as soon as it
// wakes, whatever else wants the processor.
const (
	schedOther = 0
	schedFIFO  = 1
)

// sharpen makes sleep exact to a few microseconds on this thread, which is to do
// little between its sleeps, until the function that it returns is called. Where
// the system refuses, as it refuses schedFIFO to all but root, requests leave
// later, which Opened.Late tells.
func sharpen() (restore func()) {
	set := func(slack uintptr, policy uintptr, priority int32) {
		syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, slack, 0)
		syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, policy, uintptr(unsafe.Pointer(&priority)))
	}
	set(1, schedFIFO, 1)
	return func() { set(0, schedOther, 0) }
}

// sleep puts the thread to sleep. time.Sleep is exact to a millisecond only
// where nothing else runs, as it waits for the network and the clock in one.
func sleep(d time.Duration) {
	rest := syscall.NsecToTimespec(int64(d))
	// The runtime's signals wake it early.
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
