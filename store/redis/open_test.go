package redis

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// refusesToOpen asserts that opening fails with an error that holds all of want, and no
// password.
func refusesToOpen(t *testing.T, url string, opt Options, want ...string) {
	t.Helper()
	s, err := Open(t.Context(), url, opt)
	if err == nil {
		s.Close()
		t.Errorf("%s: opened", url)
		return
	}
	for _, w := range want {
		if !contains(err, w) {
			t.Errorf("%s: %v: want %q in it", url, err, w)
		}
	}
	if contains(err, "s3cret") {
		t.Errorf("%s: the error shows the password: %v", url, err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || strings.HasSuffix(text, ".") {
		t.Errorf("%s: not one line, or with a full stop: %q", url, text)
	}
}

func TestWrongURLs(t *testing.T) {
	f := func(url string, want ...string) {
		t.Helper()
		refusesToOpen(t, url, Options{}, want...)
	}
	f("", "must begin with redis://")
	f("memcached://localhost", "must begin with redis://")
	f("redis://", "a host is missing")
	f("redis://h:p:q", "not HOST:PORT")
	f("redis://h:99999", "not HOST:PORT")
	f("redis://h1,h2", "redis:// has one host", "redis+cluster://")
	f("redis+ring://h1,h2,h1", "named twice")
	f("redis://h/x", "not the number of a database")
	f("redis://h/-1", "not the number of a database")
	f("redis+cluster://h/1", "database 0 alone")
	f("redis+sentinel://h1,h2", "name of the primary is missing")
	f("redis+unix://", "path of the socket is missing")
	f("redis+unix://host/path", "no host")
	f("rediss+unix:///path", "speaks no TLS")
	f("redis://s3cret@h", "a user without a password")
	f("redis://:s3cret%@h", "escape the special characters")
	f("redis://h?time_out=1s", `unknown parameter "time_out"`, `did you mean "timeout"?`)
	f("redis://h?timeout=1", `timeout "1"`)
	f("redis://h?timeout=1us", "at least 1ms")
	f("redis://h?in_flight=0", "between 1 and")
	f("redis://h?prefix={a}", "no braces")
	f("redis://h?ring_on_loss=perhaps", "move or policy")
	f("redis://h?tls_ca=/x", "want rediss://")
	f("rediss://h?tls_ca=/no/such/file", "tls_ca")
	f("rediss://h?tls_cert=/x", "belong together")
	f("rediss://h?tls_cert=/x&tls_key=/y", "tls_cert")
	f("redis://h#x", "no fragment")
	f("redis://"+strings.Repeat("h", maxURL), "bytes")
}

func TestURLs(t *testing.T) {
	a, err := parseURL("redis+sentinel://ann:p%40ss@[::1],h2:5000/main/3?timeout=35ms&prefix=x&in_flight=7&sentinel_user=u&sentinel_password=q&tls=true&tls_server_name=n", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a.user != "ann" || a.password != "p@ss" || strings.Join(a.hosts, " ") != "[::1]:26379 h2:5000" || a.master != "main" ||
		a.database != 3 || a.Timeout.String() != "35ms" || a.Prefix != "x" || a.InFlight != 7 || a.sentinelUser != "u" ||
		a.sentinelPassword != "q" || a.TLS == nil || a.TLS.ServerName != "n" || a.TLS.MinVersion != tls.VersionTLS12 || a.kind != sentinel {
		t.Errorf("%+v", a)
	}
	a, err = parseURL("redis://localhost", Options{})
	if err != nil || a.hosts[0] != "localhost:6379" || a.TLS != nil || a.Timeout != defaultTimeout || a.Prefix != "weir" || a.InFlight != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("redis://user:password@host:6379/1?timeout=1s")
	f.Add("redis+sentinel://[::1]:1,h2/main/3")
	f.Add("redis+unix:///tmp/s?db=4")
	f.Add("rediss+ring://h1,h2,h3?ring_on_loss=policy")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "tls_c") || strings.Contains(text, "tls_k") {
			return // reads files
		}
		a, err := parseURL(text, Options{})
		if err == nil && (len(a.hosts) == 0 || a.Timeout <= 0 || a.Prefix == "" || a.InFlight < 0) {
			t.Errorf("%q: %+v", text, a)
		}
	})
}

// What is wrong when the store is opened is said in one line, with the cure.
func TestWrongServers(t *testing.T) {
	t.Parallel()
	open := servertest.Redis(t)
	locked := servertest.RedisPassword(t, "s3cret")
	clustered := servertest.Redis(t, "--cluster-enabled", "yes")
	host, port, _ := strings.Cut(open.Addr, ":")
	replica := servertest.Redis(t, "--replicaof", host+" "+port)
	f := func(url string, want ...string) {
		t.Helper()
		refusesToOpen(t, url, Options{}, append(want, "redis")...)
	}
	f("redis://127.0.0.1:1", "nobody listens there")
	f("redis+unix:///no/such/socket", "no such socket")
	f("redis://"+locked.Addr, "the server wants a password")
	f("redis://:wrong@"+locked.Addr, "the user or password in the URL is wrong")
	f("redis://ann:s3cret@"+locked.Addr, "the user or password in the URL is wrong")
	f("redis://"+open.Addr+"/99", "no such database")
	f("redis://"+clustered.Addr, "redis+cluster://")
	f("redis+cluster://"+open.Addr, "is not part of a cluster", "redis://")
	f("redis+sentinel://"+open.Addr+"/primary", "is no Sentinel", "redis://")
	f("redis+ring://"+open.Addr+",127.0.0.1:1", "127.0.0.1:1", "nobody listens there")
	f("rediss://"+open.Addr, "does it speak TLS there")
	f("redis://"+replica.Addr, "a replica of "+open.Addr)
	locked.Do(t, "ACL", "SETUSER", "reader", "on", ">s3cret", "~weir:*", "+@read", "+info", "+hello", "+client", "+ping")
	f("redis://reader:s3cret@"+locked.Addr, "the user may not do this")
	locked.Do(t, "ACL", "SETUSER", "other", "on", ">s3cret", "~other:*", "+@all")
	f("redis://other:s3cret@"+locked.Addr, "the user may not do this")
}

// leastPrivilege is what docs/reference/redis.md tells to allow a user.
const leastPrivilege = "+@read +@write +@scripting +@connection +info +time -@dangerous +info"

// A user who may do no more than the docs say can keep limits.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	r := servertest.RedisPassword(t, "s3cret")
	r.Do(t, append([]string{"ACL", "SETUSER", "weir", "on", ">p@ss", "~weir:*"}, strings.Fields(leastPrivilege)...)...)
	s := open(t, "redis://weir:"+url.QueryEscape("p@ss")+"@"+r.Addr+"/3", Options{Timeout: long, Prefix: "weir"})
	for _, a := range algorithm.All {
		if _, ok := a.(algorithm.Scripted); !ok {
			continue
		}
		l := perHour(t, 3, a)
		ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: 1}, {Key: "k", Limit: l, Cost: 1, ID: 2}}
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatalf("%s: %v", a.Name(), err)
		}
		if !ops[0].Charged || !ops[1].Charged {
			t.Errorf("%s: %+v", a.Name(), ops)
		}
		if _, err := s.Forget(t.Context(), "k", l); err != nil {
			t.Errorf("%s: %v", a.Name(), err)
		}
	}
	if n := countersOf(t, r); n != 0 {
		t.Errorf("%v keys in database 0", n)
	}
}

// Settings that can be lived with are logged when the store is opened.
func TestWarnings(t *testing.T) {
	t.Parallel()
	opened := func(r *servertest.RedisServer, want string) {
		t.Helper()
		var log bytes.Buffer
		open(t, "redis://"+r.Addr, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := log.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
	f := func(want string, args ...string) {
		t.Helper()
		opened(servertest.Redis(t, args...), want)
	}
	f("level=WARN msg=\"server evicts keys when its memory is full", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	f("level=INFO", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
	f("", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl")
	f("", "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")
	f("", "--maxmemory-policy", "allkeys-lru")
	opened(servertest.RedisClock(t, -time.Minute), "level=WARN msg=\"clocks of the server and of this machine differ; synchronize both with NTP\"")
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{"6.0.20": true, "5.0.7": true, "6.2.0": false, "7.0.15": false, "10.0.1": false, "x": false} {
		if isVersionBefore(version, 6, 2) != want {
			t.Errorf("%s older than 6.2: %v", version, !want)
		}
	}
}

// TLS, with a certificate of the client's own.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, pair := servertest.Certificate(t, dir, "redis")
	r := servertest.RedisTLS(t, cert, key, pair)
	s := open(t, "rediss://"+r.Addr+"?tls_ca="+cert+"&tls_cert="+cert+"&tls_key="+key, Options{Timeout: long})
	l := perHour(t, 3, algorithm.TokenBucket)
	if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || d.Remaining != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	refusesToOpen(t, "rediss://"+r.Addr, Options{}, "by tls_ca")
	refusesToOpen(t, "rediss://"+r.Addr+"?tls_ca="+cert, Options{}, "by tls_cert and tls_key")
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refusesToOpen(t, "rediss://"+r.Addr+"?tls_ca="+filepath.Join(dir, "empty"), Options{}, "no PEM certificate")
	refusesToOpen(t, "redis://"+r.Addr, Options{}, "write rediss://")
}

// TestFamilyTLSErrorsNameTheCure: whatever is wrong with a certificate, the server's or
// the client's, the error names the setting that mends it, of a server, a ring and a
// cluster and of what Sentinels are.
func TestFamilyTLSErrorsNameTheCure(t *testing.T) {
	t.Parallel()
	certificate := func(change func(*x509.Certificate)) (cert, key string, pair tls.Certificate) {
		return servertest.CertificateWith(t, t.TempDir(), "redis", change)
	}
	good, goodKey, goodPair := certificate(func(*x509.Certificate) {})
	serves := func(cert tls.Certificate, clients tls.ClientAuthType) string {
		pool := x509.NewCertPool()
		pool.AddCert(goodPair.Leaf)
		ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: clients, ClientCAs: pool})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(io.Discard, c) // its handshake first
					c.Close()
				}()
			}
		}()
		return ln.Addr().String()
	}
	f := func(addr, params, want string) {
		t.Helper()
		for _, kind := range []string{"rediss://%s?%s", "rediss+ring://%s?%s", "rediss+cluster://%s?%s", "rediss+sentinel://%s/primary?%s"} {
			refusesToOpen(t, fmt.Sprintf(kind, addr, params), Options{Timeout: long}, want)
		}
	}
	for _, c := range []struct {
		change func(*x509.Certificate)
		params string
		want   string
	}{
		{func(c *x509.Certificate) { c.IPAddresses = nil }, "", "by tls_server_name"},
		{func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"redis.example"} }, "", "by tls_server_name"},
		{func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 9)} }, "", "by tls_server_name"},
		{func(c *x509.Certificate) { c.DNSNames = []string{"redis.example"} }, "&tls_server_name=redis.other", "by tls_server_name"},
		{func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "", "renew the server's certificate"},
		{func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, "", "set the clock"},
	} {
		cert, _, pair := certificate(c.change)
		f(serves(pair, tls.NoClientCert), "tls_ca="+cert+c.params, c.want)
	}
	f(serves(goodPair, tls.NoClientCert), "", "by tls_ca")
	asks := serves(goodPair, tls.RequireAndVerifyClientCert)
	f(asks, "tls_ca="+good, "by tls_cert and tls_key")
	for _, change := range []func(*x509.Certificate){func(*x509.Certificate) {}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }} {
		cert, key, _ := certificate(change)
		f(asks, "tls_ca="+good+"&tls_cert="+cert+"&tls_key="+key, "tls_cert")
	}
	other, _, _ := certificate(func(*x509.Certificate) {})
	f(asks, "tls_ca="+good+"&tls_cert="+other+"&tls_key="+goodKey, "tls_cert, tls_key")
}
