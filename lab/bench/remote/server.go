// Package remote measures limiters that keep their counters in Redis: what a
// decision costs the client and the server together.
package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoServer says that redis-server is not installed.
var ErrNoServer = errors.New("redis-server is not installed: apt-get install redis-server")

// Server is a redis-server of its own, on a free loopback port, that keeps nothing
// on disk.
type Server struct {
	Addr string
	cmd  *exec.Cmd
	dir  string
}

// Start starts a server. It is killed when ctx ends, if it was not closed before.
func Start(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoServer
	}
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		return nil, err
	}
	const attempts = 5
	for range attempts {
		s := &Server{dir: dir}
		if err = s.start(ctx, path); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("redis-server did not start in %d attempts: %w", attempts, err), os.RemoveAll(dir))
}

func (s *Server) start(ctx context.Context, path string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.Addr = ln.Addr().String()
	ln.Close()
	_, port, _ := strings.Cut(s.Addr, ":")
	s.cmd = exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	if err := s.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(5 * time.Second); ; <-time.After(5 * time.Millisecond) {
		text, err := Info(s.Addr)
		if err == nil && strings.Contains(text, fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)) {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("nobody answers on %s", s.Addr), err, s.stop())
		}
	}
}

func (s *Server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// It was told to end: how it did is of no interest.
	_ = s.cmd.Wait()
	return nil
}

// Pid returns the server's process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Close ends the server.
func (s *Server) Close() error { return errors.Join(s.stop(), os.RemoveAll(s.dir)) }

// Info returns all that a server tells of itself.
func Info(addr string) (string, error) { return Do(addr, "INFO everything") }

// Do sends a command whose words have no spaces, and returns the reply.
func Do(addr, command string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(line[1:])
	switch line[0] {
	case '-':
		return "", fmt.Errorf("redis: %s: %s", command, text)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", fmt.Errorf("redis: %s: nothing there", command)
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return string(b), err
	}
	return text, nil
}

// Usage is what a server has done so far.
type Usage struct {
	CPU time.Duration
	// Commands that it has carried out, those of scripts too.
	Commands int64
}

// Used reads the server's INFO. Its own calls and those that open connections do
// not count.
func Used(addr string) (Usage, error) {
	text, err := Info(addr)
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	var found int
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "used_cpu_sys" || name == "used_cpu_user":
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return Usage{}, fmt.Errorf("redis: INFO: %s: %w", name, err)
			}
			u.CPU += time.Duration(s * float64(time.Second))
			found++
		case strings.HasPrefix(name, "cmdstat_"):
			if counts(strings.TrimPrefix(name, "cmdstat_")) {
				var n int64
				if _, err := fmt.Sscanf(value, "calls=%d,", &n); err != nil {
					return Usage{}, fmt.Errorf("redis: INFO: %s: %w", name, err)
				}
				u.Commands += n
			}
		}
	}
	if found != 2 {
		return Usage{}, errors.New("redis: INFO tells no processor time")
	}
	return u, nil
}

// setup are commands that decide nothing.
var setup = map[string]bool{"info": true, "hello": true, "client": true, "select": true, "ping": true, "command": true,
	"config": true, "script": true, "role": true, "auth": true, "memory": true}

func counts(command string) bool {
	name, _, _ := strings.Cut(command, "|")
	return !setup[name]
}
