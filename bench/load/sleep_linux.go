package load

import (
	"syscall"
	"time"
)

// Linux lets a thread oversleep by its timer slack, 50 µs unless it is told
// otherwise: prctl(2), PR_SET_TIMERSLACK, in nanoseconds, 0 for the default.
const setTimerSlack = 29

// sharpen makes sleep exact to a few microseconds on this thread until the
// function that it returns is called. Where the system refuses, requests leave
// later, which Opened.Late tells.
func sharpen() (restore func()) {
	set := func(slack uintptr) { syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, slack, 0) }
	set(1)
	return func() { set(0) }
}

// sleep puts the thread to sleep. time.Sleep is exact to a millisecond only
// where nothing else runs, as it waits for the network and the clock in one.
func sleep(d time.Duration) {
	rest := syscall.NsecToTimespec(int64(d))
	// The runtime's signals wake it early.
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
