package broker

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/spell"
)

// maxURL is the longest URL, in bytes, and maxHosts the most servers in one.
const (
	maxURL   = 16 << 10
	maxHosts = 100
)

// Form says which URLs a queue has.
type Form struct {
	// Scheme is the word for a connection without TLS; with an s behind it the
	// connection has TLS.
	Scheme string
	// Port is that of a host without one, without and with TLS.
	Port, TLSPort string
	// Parameters are those beside tls_ca, tls_cert, tls_key and tls_server_name.
	Parameters []string
	// Example is shown to who got it wrong.
	Example string
}

// Address is what a URL says.
type Address struct {
	// Text is the URL for people: without user, password and parameters.
	Text string
	// Hosts are HOST:PORT, one at least.
	Hosts []string
	// User and Password are both empty or both not.
	User, Password string
	// Path is what follows the first slash after the hosts.
	Path string
	// TLS is nil where the connection has none, and by Files, which are read for each one.
	TLS   *tls.Config
	Files certfile.Client

	query url.Values
}

// Parse reads a URL: SCHEME://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/PATH][?PARAMETERS].
// Errors do not show the password.
func (f *Form) Parse(text string) (*Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case len(text) > maxURL:
		return nil, fmt.Errorf("the URL has more than %d bytes", maxURL)
	case !ok || scheme != f.Scheme && scheme != f.Scheme+"s":
		return nil, fmt.Errorf("the URL must begin with %s:// or %ss://, as in %s", f.Scheme, f.Scheme, f.Example)
	}
	secure := scheme != f.Scheme
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	at := strings.LastIndexByte(authority, '@')
	// net/url does not know several hosts in one, and its errors show the password.
	u, err := url.Parse("x://" + authority[:at+1] + "host" + tail)
	if err != nil {
		return nil, errors.New("not a URL: escape the special characters of user and password, @ as %40")
	}
	a := &Address{Path: strings.TrimPrefix(u.Path, "/"), User: u.User.Username()}
	a.Password, _ = u.User.Password()
	a.Text, _, _ = strings.Cut(scheme+"://"+authority[at+1:]+tail, "?")
	if err := f.read(a, u, authority[at+1:], secure); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Text, err)
	}
	return a, nil
}

func (f *Form) read(a *Address, u *url.URL, hosts string, secure bool) (err error) {
	if u.Fragment != "" {
		return errors.New("the URL of a queue has no fragment: escape # as %23")
	}
	if (a.User == "") != (a.Password == "") {
		return fmt.Errorf("user and password belong together: write %s://user:password@host", f.Scheme)
	}
	port := f.Port
	if secure {
		port = f.TLSPort
	}
	if a.Hosts, err = readHosts(hosts, port); err != nil {
		return err
	}
	if a.query, err = url.ParseQuery(u.RawQuery); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	known := append([]string{"tls_ca", "tls_cert", "tls_key", "tls_server_name"}, f.Parameters...)
	for name, values := range a.query {
		if len(values) > 1 {
			return fmt.Errorf("parameter %s is there twice", name)
		}
		if slices.Contains(known, name) {
			continue
		}
		return spell.Unknown("parameter", name, known)
	}
	if !secure {
		for _, name := range known[:4] {
			if a.query.Has(name) {
				return fmt.Errorf("%s wants %ss:// for %s://", name, f.Scheme, f.Scheme)
			}
		}
		return nil
	}
	get := a.query.Get
	a.Files = certfile.Client{CA: get("tls_ca"), Cert: get("tls_cert"), Key: get("tls_key"), ServerName: get("tls_server_name")}
	a.TLS, err = a.Files.Config(nil)
	return err
}

// Parameter returns the value of a parameter, or what it is without one.
func (a *Address) Parameter(name, otherwise string) string {
	return cmp.Or(a.query.Get(name), otherwise)
}

func readHosts(text, port string) ([]string, error) {
	var hosts []string
	for host := range strings.SplitSeq(text, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil && (!strings.Contains(host, ":") || net.ParseIP(strings.Trim(host, "[]")) != nil) {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		name, p, err := net.SplitHostPort(host)
		n, portErr := strconv.Atoi(p)
		switch {
		case err != nil || portErr != nil || n < 1 || n > 65535:
			return nil, fmt.Errorf("%q is not HOST:PORT", host)
		case name == "":
			return nil, errors.New("a host is missing")
		case slices.Contains(hosts, host):
			return nil, fmt.Errorf("%s is named twice", host)
		}
		if hosts = append(hosts, host); len(hosts) > maxHosts {
			return nil, fmt.Errorf("more than %d hosts", maxHosts)
		}
	}
	return hosts, nil
}
