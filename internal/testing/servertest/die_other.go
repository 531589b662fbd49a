//go:build !linux

package servertest

import "os/exec"

// dieWithParent does nothing where the kernel has no such wish.
func dieWithParent(*exec.Cmd) {}

// runAs does nothing: other systems' PostgreSQL is started by its own user.
func runAs(*exec.Cmd, int, int) {}

// awaitStop does nothing: other systems' tests may see an answer of a process that stops.
func awaitStop(int) error { return nil }
