package servertest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Memcached starts memcached on addr, HOST:PORT of this machine, with further
// arguments, and returns the address and the process. An empty addr means a free
// loopback port.
func Memcached(t testing.TB, addr string, args ...string) (string, *Process) {
	t.Helper()
	bin := Binary(t, "memcached")
	attempts := 1
	if addr == "" {
		attempts = 3 // a free port can be taken before memcached has it
	}
	for range attempts {
		at := addr
		if at == "" {
			at = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
		}
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			t.Fatal(err)
		}
		// -u counts only for root, whom memcached does not serve otherwise.
		p := Start(t, exec.Command(bin, append([]string{"-l", host, "-p", port, "-U", "0", "-t", "1", "-m", "16", "-u", "root"}, args...)...))
		// It takes a second to end when asked to, and has nothing to save; a process
		// that has ended already needs no signal.
		t.Cleanup(func() { _ = p.Signal(os.Kill) })
		if p.await(t, "memcached on "+at, func() bool { return p.isMemcached(at) }) {
			return at, p
		}
		t.Logf("memcached did not start on %s:\n%s", at, p.Output())
	}
	t.Fatalf("memcached did not start in %d attempts", attempts)
	return "", nil
}

// isMemcached reports whether it is p that answers on addr, or something that
// asks for a password and so cannot be asked who it is.
func (p *Process) isMemcached(addr string) bool {
	nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return false
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return false
	}
	if _, err := fmt.Fprint(nc, "stats\r\n"); err != nil {
		return false
	}
	line, err := bufio.NewReader(nc).ReadString('\n')
	line = strings.TrimSpace(line)
	return err == nil && (line == fmt.Sprintf("STAT pid %d", p.cmd.Process.Pid) || strings.Contains(line, "unauthenticated"))
}
