package servertest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// PostgresServer is a PostgreSQL that a test started. Its files do not outlive a
// power cut: nothing waits for the disk.
type PostgresServer struct {
	*Process
	// URL connects as its superuser to the database postgres.
	URL string

	t    testing.TB
	bin  string
	data string
	port int
}

// Postgres starts a PostgreSQL with further settings, NAME=VALUE, on a free
// loopback port. It runs as the user postgres if the test runs as root, whom it
// does not serve.
func Postgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	s := &PostgresServer{t: t, bin: postgresFolder(t)}
	dir, err := os.MkdirTemp("", "weir-postgres") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if uid, gid, other := postgresUser(t); other {
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	s.data = filepath.Join(dir, "data")
	init := s.command("initdb", "-D", s.data, "-U", "weir", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	conf := "fsync = off\nfull_page_writes = off\nunix_socket_directories = ''\nlisten_addresses = '127.0.0.1'\nmax_connections = 60\nshared_buffers = 32MB\n"
	for _, line := range settings {
		conf += line + "\n"
	}
	f, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(conf); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const attempts = 3
	for range attempts {
		s.port = FreePort(t)
		s.URL = fmt.Sprintf("postgres://weir@127.0.0.1:%d/postgres?sslmode=disable", s.port)
		if s.start() {
			return s
		}
		t.Logf("postgres did not start on port %d:\n%s", s.port, s.Output())
	}
	t.Fatalf("postgres did not start in %d attempts", attempts)
	return nil
}

// Stop ends the server, cutting off whoever is connected. With kill nothing is
// written before.
func (s *PostgresServer) Stop(kill bool) {
	s.t.Helper()
	sig := syscall.SIGINT // a fast shutdown; SIGTERM waits for clients to leave
	if kill {
		sig = syscall.SIGQUIT // an immediate one, which ends its children too
	}
	if err := s.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	<-s.done
}

// Restart starts a server that was stopped, at the same port with what it had.
func (s *PostgresServer) Restart() {
	s.t.Helper()
	if !s.start() {
		s.t.Fatalf("postgres did not start again on port %d:\n%s", s.port, s.Output())
	}
}

func (s *PostgresServer) start() bool {
	s.t.Helper()
	p := Start(s.t, s.command("postgres", "-D", s.data, "-p", strconv.Itoa(s.port)))
	s.Process = p
	s.t.Cleanup(func() { _ = p.Signal(syscall.SIGINT) }) // it may have ended already
	return p.await(s.t, fmt.Sprintf("postgres on port %d", s.port), func() bool { return s.accepts() })
}

// accepts reports whether the server answers the first message of a connection:
// it listens a while before it does.
func (s *PostgresServer) accepts() bool {
	nc, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.port), time.Second)
	if err != nil {
		return false
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return false
	}
	// Length, version 3.0, parameters as strings that end with zero.
	body := "\x00\x03\x00\x00user\x00weir\x00database\x00postgres\x00\x00"
	if _, err := nc.Write(append([]byte{0, 0, 0, byte(4 + len(body))}, body...)); err != nil {
		return false
	}
	kind := make([]byte, 1)
	_, err = nc.Read(kind)
	return err == nil && kind[0] == 'R' // authentication; 'E' is an error, such as starting up
}

// command returns a program of PostgreSQL as the user that it serves.
func (s *PostgresServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = "/"
	if uid, gid, other := postgresUser(s.t); other {
		runAs(cmd, uid, gid)
	}
	return cmd
}

// postgresUser returns who PostgreSQL runs as, and whether that is another user.
func postgresUser(t testing.TB) (uid, gid int, other bool) {
	t.Helper()
	if os.Getuid() != 0 {
		return os.Getuid(), os.Getgid(), false
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("the user postgres, whom Debian's package makes, is missing: %v", err)
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		t.Fatal(err)
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		t.Fatal(err)
	}
	return uid, gid, true
}

// postgresFolder returns the folder of PostgreSQL's programs, which Debian keeps
// by version, the newest last.
func postgresFolder(t testing.TB) string {
	t.Helper()
	if found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); err == nil && len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	return filepath.Dir(Binary(t, "postgres"))
}
