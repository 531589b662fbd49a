//go:build !linux

package servertest

import "os/exec"

// dieWithParent does nothing where the kernel has no such wish.
func dieWithParent(*exec.Cmd) {}
