package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// probeWithin is how long a server may take to say who it is, at start-up.
	probeWithin = 2 * time.Second
	// maxProbe is the most bytes that are read of what it says.
	maxProbe = 64 << 10
)

// Probe asks every server who it is. An error says which one cannot be used and
// what to do; of those that can be used and that forget counts when they are full, or
// whose clock is off, Options.Logger is warned. Call it once, at start-up, before the store
// is given to another: that asks servers which did not answer, see [Unreachable], once they do.
func (s *Store) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	for _, v := range s.servers {
		v.missing.Store(nil)
		if err := s.examineServer(ctx, v); err != nil {
			v.missing.Store(&err)
		}
	}
	return s.NotReached()
}

// NotReached returns why servers that Probe has not found were not reached since, nil once all
// were.
func (s *Store) NotReached() error {
	var errs []error
	for _, v := range s.servers {
		if why := v.missing.Load(); why != nil {
			errs = append(errs, *why)
		}
	}
	return errors.Join(errs...)
}

// examineServer asks a server who it is, and warns of what is likely wrong with it.
func (s *Store) examineServer(ctx context.Context, v *server) error {
	found, err := probeServer(ctx, v.addr)
	if err != nil {
		return fmt.Errorf("store memcached %s: %w", v.addr, err)
	}
	if version := found["version"]; version != "" {
		version = "Memcached " + version
		s.version.Store(&version)
	}
	for _, w := range found.warnings(v.addr, time.Now().Unix()) {
		s.log.Warn(w)
	}
	return nil
}

// probeAgain asks a server whether it answers, and who it is if it has not said so yet. The log
// tells why it does not where that changes.
func (s *Store) probeAgain(ctx context.Context, v *server) error {
	why := v.missing.Load()
	if why == nil {
		_, err := probeServer(ctx, v.addr)
		return err
	}
	switch err := s.examineServer(ctx, v); {
	case err == nil:
		if v.missing.CompareAndSwap(why, nil) {
			s.log.Info("store reached", "store", v.addr)
		}
		return nil
	case err.Error() != (*why).Error() && v.missing.CompareAndSwap(why, &err):
		s.log.Warn("store unavailable; will retry", "store", v.addr, "err", err)
		return err
	default:
		return err
	}
}

// Version returns the name and version of the server that was probed last, such as
// "Memcached 1.6.18".
func (s *Store) Version() string {
	if v := s.version.Load(); v != nil {
		return *v
	}
	return ""
}

// probed is what a server says of itself.
type probed map[string]string

func probeServer(ctx context.Context, addr string) (probed, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w: start Memcached there, or correct the server's address", err)
	}
	defer nc.Close()
	if d, ok := ctx.Deadline(); ok {
		if err := nc.SetDeadline(d); err != nil {
			return nil, err
		}
	}
	r := bufio.NewReader(io.LimitReader(nc, maxProbe))
	ask := func(command string) (string, error) {
		if _, err := io.WriteString(nc, command+"\r\n"); err != nil {
			return "", err
		}
		return readLine(r)
	}
	line, err := ask("version")
	switch {
	case err != nil:
		return nil, fmt.Errorf("it does not say its version: %w: name a Memcached that speaks the text protocol without TLS", err)
	case strings.Contains(line, "unauthenticated"):
		return nil, errors.New("it asks for a password, which this store does not give: start Memcached without -Y and -S, in a private network")
	case !strings.HasPrefix(line, "VERSION "):
		return nil, fmt.Errorf("it answers %.60q to version: this is not Memcached, correct the server's address", line)
	}
	version := probed{"version": strings.TrimPrefix(line, "VERSION ")}
	for _, command := range []string{"stats", "stats settings"} {
		line, err := ask(command)
		for ; err == nil && strings.HasPrefix(line, "STAT "); line, err = readLine(r) {
			name, value, _ := strings.Cut(line[len("STAT "):], " ")
			version[name] = value
		}
		if err != nil {
			return nil, fmt.Errorf("it does not answer %s: %w", command, err)
		}
		// A proxy that keeps its statistics to itself says so in one line.
	}
	return version, nil
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// warnings says what is allowed and yet likely wrong. wall is the node's time in
// seconds.
func (p probed) warnings(addr string, wall int64) []string {
	var all []string
	if p["evictions"] == "on" {
		all = append(all, fmt.Sprintf("store memcached %s: it forgets counts when its memory is full, and their keys are then admitted anew: "+
			"start it with -M and enough memory (-m), and use it for nothing else", addr))
	}
	if t, err := strconv.ParseInt(p["time"], 10, 64); err == nil && max(t-wall, wall-t) > grace {
		all = append(all, fmt.Sprintf("store memcached %s: its clock differs from this node's by %s: keep all clocks in step (NTP)",
			addr, time.Duration(t-wall)*time.Second))
	}
	return all
}
