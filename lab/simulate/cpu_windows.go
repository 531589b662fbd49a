package main

import (
	"syscall"
	"time"
)

// cpuTime returns how long this process has used processors.
func cpuTime() time.Duration {
	var created, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if err == nil {
		err = syscall.GetProcessTimes(self, &created, &ended, &kernel, &user)
	}
	if err != nil {
		return 0 // a process may always look at itself
	}
	return ticks(kernel) + ticks(user)
}

// ticks returns a span that is counted in units of 100 nanoseconds.
func ticks(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
