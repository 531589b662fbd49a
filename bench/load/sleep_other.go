//go:build !linux

package load

import "time"

func sharpen() (restore func()) { return func() {} }

func sleep(d time.Duration) { time.Sleep(d) }
