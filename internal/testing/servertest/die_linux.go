package servertest

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
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

// awaitStop returns when every thread of a child has stopped, and leaves its state to be
// waited for again.
func awaitStop(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}
