package servertest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends the server with a test binary that is killed, by the test
// timeout for one.
func dieWithParent(cmd *exec.Cmd) { attributes(cmd).Pdeathsig = syscall.SIGKILL }

// runAs makes a program run as another user.
func runAs(cmd *exec.Cmd, uid, gid int) {
	attributes(cmd).Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}
