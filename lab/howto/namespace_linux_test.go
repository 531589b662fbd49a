package howto

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolate makes a command run in namespaces of its own: its ports are all free, whatever
// runs on the machine, and all that it starts ends with it.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
}

// prepare brings the loopback interface up, and gives the namespaces a /proc and
// names of hosts of their own.
func prepare(hosts string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	file := filepath.Join(os.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost "+hosts+"\n::1 localhost\n"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount(file, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /etc/hosts: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// shelter puts a copy of a folder in memory in its place: changes end with the namespace.
func shelter(folder string) error {
	before, err := os.MkdirTemp("", "before")
	if err != nil {
		return err
	}
	if err := os.CopyFS(before, os.DirFS(folder)); err != nil && folder != "/run" {
		return fmt.Errorf("copy %s: %w", folder, err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", folder, err)
	}
	if folder == "/run" {
		return nil
	}
	return os.CopyFS(folder, os.DirFS(before))
}
