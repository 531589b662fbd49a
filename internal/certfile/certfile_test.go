package certfile

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// issue writes a certificate of the given name into dir.
func issue(t *testing.T, dir, name string) (Files, tls.Certificate) {
	t.Helper()
	cert, key, pair := servertest.Certificate(t, dir, name)
	return Files{Cert: cert, Key: key}, pair
}

// serveTLS serves with c and returns the address.
func serveTLS(t *testing.T, c *Certificate) string {
	t.Helper()
	ln := servertest.Listen(t)
	s := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }),
		Protocols: new(http.Protocols),
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(tls.NewListener(ln, c.Config())); err != http.ErrServerClosed {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { s.Close(); <-ended })
	return ln.Addr().String()
}

// shown returns the name in the certificate that addr shows.
func shown(addr string, conf *tls.Config) (string, error) {
	conf.InsecureSkipVerify = true
	c, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// A renewed certificate is shown to the next client; a broken one changes
// nothing, and is logged.
func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	files, _ := issue(t, dir, "first")
	var logged servertest.Log
	c, err := Open(files, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.Watch(ctx)
	}()
	addr := serveTLS(t, c)
	is := func(want string) func() bool {
		return func() bool {
			got, err := shown(addr, &tls.Config{})
			if err != nil {
				t.Fatal(err)
			}
			return got == want
		}
	}
	servertest.Await(t, "the first certificate", is("first"))
	issue(t, dir, "second")
	servertest.Await(t, "the second certificate", is("second"))
	if err := os.WriteFile(files.Cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the log line", func() bool { return strings.Contains(logged.String(), "last good one stays") })
	if !is("second")() {
		t.Error("a broken file took the place of a good certificate")
	}
	issue(t, dir, "third")
	servertest.Await(t, "the third certificate", is("third"))
	cancel()
	<-watched
}

// A broken file is logged once: other files that change beside it, such as this
// very log, and the poll find nothing new. Asked again, it is logged again.
func TestBrokenCertificateIsLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	files, _ := issue(t, dir, "first")
	var logged servertest.Log
	c, err := Open(files, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, lines int) {
		t.Helper()
		if n := strings.Count(logged.String(), "last good one stays"); n != lines {
			t.Errorf("%s: logged %d times, want %d", what, n, lines)
		}
	}
	c.follow()
	is("good", 0)
	if err := os.WriteFile(files.Cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.follow()
	c.follow()
	is("broken", 1)
	c.Reload()
	is("asked again", 2)
	if err := os.Remove(files.Cert); err != nil {
		t.Fatal(err)
	}
	c.follow()
	c.follow()
	is("gone", 3)
	issue(t, dir, "second")
	c.follow()
	c.follow()
	if n := strings.Count(logged.String(), "certificate reloaded"); n != 1 {
		t.Errorf("mended: logged %d times\n%s", n, logged.String())
	}
}

// A Kubernetes secret is a folder of links into another folder, which is
// replaced as a whole.
func TestCertificateReloadThroughLinks(t *testing.T) {
	dir := t.TempDir()
	version := func(name string) {
		sub := filepath.Join(dir, ".."+name)
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		issue(t, sub, name)
		if err := os.Symlink(".."+name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("first")
	for _, f := range []string{"cert.pem", "key.pem"} {
		if err := os.Symlink(filepath.Join("..data", f), filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.Watch(ctx)
	}()
	addr := serveTLS(t, c)
	version("second")
	servertest.Await(t, "the second certificate", func() bool {
		got, err := shown(addr, &tls.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return got == "second"
	})
	cancel()
	<-watched
}

func TestTLSVersionsAndProtocols(t *testing.T) {
	files, _ := issue(t, t.TempDir(), "weir")
	c, err := Open(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	addr := serveTLS(t, c)
	if _, err := shown(addr, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	if _, err := shown(addr, &tls.Config{MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get("https://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "HTTP/2.0" || err != nil {
		t.Errorf("spoke %q, %v", body, err)
	}
}

// With client authorities only those let in who show a certificate of theirs.
func TestClientCertificates(t *testing.T) {
	files, _ := issue(t, t.TempDir(), "weir")
	friend, pair := issue(t, t.TempDir(), "friend")
	_, stranger := issue(t, t.TempDir(), "stranger")
	files.ClientCA = friend.Cert
	c, err := Open(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	addr := serveTLS(t, c)
	ask := func(certs ...tls.Certificate) error {
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certs}}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Get("https://" + addr)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := ask(pair); err != nil {
		t.Errorf("a client of the authority was turned away: %v", err)
	}
	if ask() == nil || ask(stranger) == nil {
		t.Error("a stranger was let in")
	}
	files.ClientSAN = "127.0.0.1"
	if c, err = Open(files, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	addr = serveTLS(t, c)
	if err := ask(pair); err != nil {
		t.Errorf("a client of the right name was turned away: %v", err)
	}
	files.ClientSAN = "someone.example"
	if c, err = Open(files, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	addr = serveTLS(t, c)
	if ask(pair) == nil {
		t.Error("a client of another name was let in")
	}
}

func TestBrokenCertificates(t *testing.T) {
	dir := t.TempDir()
	good, _ := issue(t, dir, "good")
	other, _ := issue(t, t.TempDir(), "other")
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range []Files{
		{Cert: good.Cert, Key: other.Key},
		{Cert: junk, Key: good.Key},
		{Cert: dir + "/gone", Key: good.Key},
		{Cert: good.Cert, Key: good.Key, ClientCA: junk},
		{Cert: good.Cert, Key: good.Key, ClientSAN: dir},
	} {
		if _, err := Open(files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%+v: %v", files, err)
		}
	}
}
