package memcached

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/spell"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Options configures a [Store].
type Options struct {
	// Servers are the addresses, HOST:PORT, 1 to 64. Names are looked up
	// with each new connection. Required.
	Servers []string
	// Prefix begins every key: up to 100 bytes of printable ASCII without
	// spaces. Nodes that share counts have the same. Zero means "weir:".
	Prefix string
	// Timeout is the longest that a decision waits, at least a millisecond. What a
	// request of several servers has charged before one of them fails is taken back
	// within as much again. Zero means 20 milliseconds.
	Timeout time.Duration
	// MaxConns is the most connections to one server, 1 to 1024. Calls beyond
	// wait, within their Timeout. Zero means 16.
	MaxConns int
	// Now tells the time in microseconds since the Unix epoch, for tests and
	// replays. Zero means the wall clock.
	Now func() int64
	// Logger is warned by [Store.Probe], and told of servers that it has not found. Zero
	// means nobody is told.
	Logger *slog.Logger
}

// Bounds of [Options].
const (
	maxServers = 64
	maxPrefix  = 100
	minTimeout = time.Millisecond
	maxConns   = 1024
)

// maxURL is the longest URL that is read, in bytes.
const maxURL = 16 << 10

const defaultPort = "11211"

// ParseURL reads options from a URL such as
// memcached://host:port,host2:port?prefix=weir:&timeout=20ms&conns=16. Ports not
// given are 11211. It looks nothing up.
func ParseURL(text string) (Options, error) {
	var o Options
	if len(text) > maxURL {
		return o, storeErrorf("the URL has %d bytes, %d is the most", len(text), maxURL)
	}
	rest, ok := strings.CutPrefix(text, "memcached://")
	if !ok {
		return o, storeErrorf("the URL must begin with memcached://, as in memcached://127.0.0.1:11211")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(hosts, "@"):
		return o, storeErrorf("there are no users or passwords: leave out what stands before the @, and keep the servers in a private network")
	case path != "":
		return o, storeErrorf("unexpected path %q: after the servers may come ? and settings only", path)
	case strings.Contains(text, "#"):
		return o, storeErrorf("unexpected #: write it as %%23")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		server, err := withPort(host)
		if err != nil {
			return o, err
		}
		o.Servers = append(o.Servers, server)
	}
	if err := o.setFromQuery(query); err != nil {
		return o, err
	}
	_, err := o.orDefaults()
	return o, err
}

// withPort returns host as HOST:PORT.
func withPort(host string) (string, error) {
	switch {
	case host == "":
		return "", storeErrorf("a server has no name: give servers as HOST:PORT, with commas between them")
	case !strings.Contains(host, ":"), strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]"):
		return host + ":" + defaultPort, nil
	}
	return host, nil
}

// setFromQuery reads the settings in the query of a URL.
func (o *Options) setFromQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return storeErrorf("settings cannot be read: %v", err)
	}
	known := []string{"conns", "prefix", "timeout"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if !slices.Contains(known, name) {
			return storeErrorf("unknown setting %q%s: there are %s", name, spell.Hint(name, known), strings.Join(known, ", "))
		}
		if len(v) > 1 {
			return storeErrorf("%s is given %d times: give it once", name, len(v))
		}
		if v[0] == "" {
			return storeErrorf("%s has no value: give one, or leave it out", name)
		}
		switch name {
		case "prefix":
			o.Prefix = v[0]
		case "timeout":
			if o.Timeout, err = time.ParseDuration(v[0]); err != nil || o.Timeout <= 0 {
				return storeErrorf("timeout %q is not a duration: give one such as 20ms", v[0])
			}
		case "conns":
			if o.MaxConns, err = strconv.Atoi(v[0]); err != nil || o.MaxConns <= 0 {
				return storeErrorf("conns %q is not a number of connections: give one from 1 to %d", v[0], maxConns)
			}
		}
	}
	return nil
}

// orDefaults checks o and returns it with the zero values replaced.
func (o Options) orDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, "weir:")
	o.Timeout = cmp.Or(o.Timeout, 20*time.Millisecond)
	o.MaxConns = cmp.Or(o.MaxConns, 16)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMicro() }
	}
	switch n := len(o.Servers); {
	case n == 0:
		return o, storeErrorf("no servers: give at least one as HOST:PORT")
	case n > maxServers:
		return o, storeErrorf("%d servers, %d is the most", n, maxServers)
	case len(o.Prefix) > maxPrefix || strings.ContainsFunc(o.Prefix, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return o, storeErrorf("prefix %q must be up to %d printable ASCII characters without spaces", o.Prefix, maxPrefix)
	case o.Timeout < minTimeout || o.Timeout > time.Minute:
		return o, storeErrorf("timeout %s must be between %s and %s", o.Timeout, minTimeout, time.Minute)
	case o.MaxConns < 1 || o.MaxConns > maxConns:
		return o, storeErrorf("conns %d must be between 1 and %d", o.MaxConns, maxConns)
	}
	for i, addr := range o.Servers {
		if err := checkAddress(addr); err != nil {
			return o, err
		}
		if slices.Contains(o.Servers[:i], addr) {
			return o, storeErrorf("server %q is named twice: name each once", addr)
		}
	}
	return o, nil
}

func checkAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && (host == "" || strings.ContainsFunc(addr, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' })) {
		err = errors.New("no host of that name can be")
	}
	if n, bad := strconv.ParseUint(port, 10, 16); err == nil && (bad != nil || n == 0) {
		err = fmt.Errorf("port %q must be a number from 1 to 65535", port)
	}
	if err != nil {
		return storeErrorf("server %q: %v: give servers as HOST:PORT", addr, err)
	}
	return nil
}

func storeErrorf(format string, args ...any) error {
	return fmt.Errorf("store memcached: "+format, args...)
}

// queueTuning is what the driver wants of its queue: a worker for each connection.
func (o *Options) queueTuning() transport.Tuning {
	t := transport.Tuning{Workers: o.MaxConns, Batch: 1, CountsOnly: true}
	if len(o.Servers) > 1 {
		t.RunsOnly, t.ProbeFor = true, max(o.Timeout, time.Second)
	}
	return t
}
