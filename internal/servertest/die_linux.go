package servertest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the server with a test binary that is killed, by the test
// timeout for one.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
