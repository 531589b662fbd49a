//go:build !linux

package howto

import (
	"errors"
	"os/exec"
)

var errLinux = errors.New("only Linux has namespaces")

func isolate(cmd *exec.Cmd) { cmd.Err = errLinux }

func prepare(string) error { return errLinux }

func shelter(string) error { return errLinux }
