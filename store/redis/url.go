package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/spell"
)

// kind is how servers stand to each other.
type kind uint8

const (
	single kind = iota
	sentinel
	clustered
	ringed
)

// kinds are the schemes of URLs. Written with rediss for redis, all speak TLS.
var kinds = map[string]kind{"redis": single, "redis+unix": single, "redis+sentinel": sentinel, "redis+cluster": clustered, "redis+ring": ringed}

// An address is what a URL says.
type address struct {
	Options
	kind           kind
	text           string // without the password, for people
	hosts          []string
	socket         bool
	files          certfile.Client // read for each connection
	master         string
	user, password string
	// Of the Sentinels, if they ask for a password of their own.
	sentinelUser, sentinelPassword string
	database                       int
	// version is what the server that was examined last calls itself.
	version *atomic.Pointer[string]
	logged  sync.Map // what was logged of the servers
}

// maxURL is the longest URL, in bytes, and maxHosts the most servers in one.
const (
	maxURL   = 16 << 10
	maxHosts = 1000
)

// Parameters of a URL.
var parameters = []string{"db", "in_flight", "prefix", "ring_on_loss", "sentinel_password", "sentinel_user", "timeout",
	"tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name"}

// parseURL reads a URL. net/url does not know several hosts in one.
func parseURL(text string, opt Options) (*address, error) {
	a := &address{Options: opt, version: new(atomic.Pointer[string])}
	scheme, rest, ok := strings.Cut(text, "://")
	secure := strings.HasPrefix(scheme, "rediss")
	k, known := kinds[strings.Replace(scheme, "rediss", "redis", 1)]
	switch {
	case len(text) > maxURL:
		return nil, fmt.Errorf("store redis: the URL has more than %d bytes", maxURL)
	case !ok || !known:
		return nil, errors.New("store redis: the URL must begin with redis://, rediss://, redis+unix://, redis+sentinel://, redis+cluster:// or redis+ring://")
	}
	a.kind, a.socket = k, strings.HasSuffix(scheme, "+unix")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	at := strings.LastIndexByte(authority, '@')
	hosts := authority[at+1:]
	u, err := url.Parse("redis://" + authority[:at+1] + "host" + tail)
	if err != nil {
		// Its error would show the password.
		return nil, errors.New("store redis: not a URL: escape the special characters of user and password, @ as %40")
	}
	a.text = scheme + "://" + hosts + tail
	if i := strings.IndexByte(a.text, '?'); i >= 0 {
		a.text = a.text[:i]
	}
	fail := func(format string, args ...any) (*address, error) {
		return nil, fmt.Errorf("store %s: "+format, append([]any{a.text}, args...)...)
	}
	if u.Fragment != "" {
		return fail("a URL of a store has no fragment: escape # as %%23")
	}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	if a.password == "" && a.user != "" {
		return fail("a user without a password: write redis://user:password@host, or redis://:password@host for the default user")
	}
	if err := a.readHosts(hosts); err != nil {
		return fail("%w", err)
	}
	if err := a.readPath(u.Path); err != nil {
		return fail("%w", err)
	}
	if err := a.readQuery(u.RawQuery, secure); err != nil {
		return fail("%w", err)
	}
	if a.kind == clustered && a.database != 0 {
		return fail("a cluster has database 0 alone: leave the number out")
	}
	a.Options = a.withDefaults()
	return a, nil
}

func (a *address) readHosts(text string) error {
	if a.socket {
		if text != "" {
			return errors.New("a Unix socket has no host: write redis+unix:///path/to/socket")
		}
		return nil
	}
	port := "6379"
	if a.kind == sentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(text, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil && (strings.Count(host, ":") == 0 || net.ParseIP(strings.Trim(host, "[]")) != nil) {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		name, p, err := net.SplitHostPort(host)
		n, portErr := strconv.Atoi(p)
		switch {
		case err != nil || portErr != nil || n < 1 || n > 65535:
			return fmt.Errorf("%q is not HOST:PORT", host)
		case name == "":
			return errors.New("a host is missing: write redis://localhost:6379")
		case slices.Contains(a.hosts, host):
			return fmt.Errorf("%s is named twice", host)
		}
		if a.hosts = append(a.hosts, host); len(a.hosts) > maxHosts {
			return fmt.Errorf("more than %d hosts", maxHosts)
		}
	}
	if a.kind == single && len(a.hosts) > 1 {
		return errors.New("redis:// has one host: write redis+cluster://, redis+sentinel:// or redis+ring:// for several")
	}
	return nil
}

// readPath reads the socket, the primary's name and the number of the database,
// which of these there are.
func (a *address) readPath(path string) error {
	if a.socket {
		if path == "" || path == "/" {
			return errors.New("the path of the socket is missing: write redis+unix:///path/to/socket")
		}
		a.hosts = []string{path}
		return nil
	}
	path = strings.TrimPrefix(path, "/")
	if a.kind == sentinel {
		if a.master, path, _ = strings.Cut(path, "/"); a.master == "" {
			return errors.New("the name of the primary is missing: write redis+sentinel://host1,host2/mymaster")
		}
	}
	if path == "" {
		return nil
	}
	return a.readDatabase(path)
}

func (a *address) readDatabase(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not the number of a database", text)
	}
	a.database = n
	return nil
}

func (a *address) readQuery(text string, secure bool) error {
	q, err := url.ParseQuery(text)
	if err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	texts := map[string]*string{
		"sentinel_user": &a.sentinelUser, "sentinel_password": &a.sentinelPassword,
		"tls_ca": &a.files.CA, "tls_cert": &a.files.Cert, "tls_key": &a.files.Key, "tls_server_name": &a.files.ServerName,
	}
	for k, values := range q {
		v, err := values[len(values)-1], error(nil)
		switch k {
		case "db":
			err = a.readDatabase(v)
		case "in_flight":
			if a.InFlight, err = strconv.Atoi(v); err == nil && (a.InFlight < 1 || a.InFlight > 1<<20) {
				err = errors.New("must be between 1 and 1048576")
			}
		case "prefix":
			if a.Prefix = v; strings.ContainsAny(v, "{}") {
				err = errors.New("must have no braces: what is between them chooses a cluster's slot")
			}
		case "ring_on_loss":
			switch v {
			case "move":
				a.OnLoss = OnLossMove
			case "policy":
				a.OnLoss = OnLossWait
			default:
				err = errors.New("must be move or policy")
			}
		case "timeout":
			if a.Timeout, err = time.ParseDuration(v); err == nil && a.Timeout < time.Millisecond {
				err = errors.New("must be at least 1ms")
			}
		case "tls":
			secure, err = strconv.ParseBool(v)
		default:
			text := texts[k]
			if text == nil {
				return spell.Unknown("parameter", k, parameters)
			}
			*text = v
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", k, v, err)
		}
	}
	if !secure {
		if a.files != (certfile.Client{}) {
			return errors.New("tls_ca, tls_cert, tls_key and tls_server_name want rediss:// for redis://")
		}
		return nil
	}
	if a.socket {
		return errors.New("a Unix socket speaks no TLS: write redis+unix://")
	}
	a.TLS, err = a.files.Config(a.TLS)
	return err
}
