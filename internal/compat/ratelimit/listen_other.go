//go:build !linux

package ratelimit

import "syscall"

// shared does nothing: only Linux shares connections fairly among those who
// listen on one address.
func shared(_, _ string, _ syscall.RawConn) error { return nil }
