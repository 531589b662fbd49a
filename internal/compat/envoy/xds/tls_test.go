package xds_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// mutual returns the configuration of a server that takes only clients whose
// certificate is the one in caFile.
func mutual(t *testing.T, pair tls.Certificate, caFile string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

func TestMutualTLS(t *testing.T) {
	serverCert, _, serverPair := servertest.Certificate(t, t.TempDir(), "management")
	clientCert, clientKey, _ := servertest.Certificate(t, t.TempDir(), "node")
	m := startManagement(t, "", mutual(t, serverPair, clientCert))
	m.Set("1", "shop")
	good := xds.TLS{Cert: clientCert, Key: clientKey, CA: serverCert, Compatible: true}

	t.Run("name of the address", func(t *testing.T) {
		n := startNode(t, xds.Options{Server: m.Addr, TLS: &good})
		n.AwaitDomains("shop")
	})
	t.Run("name that is set", func(t *testing.T) {
		_, port, _ := net.SplitHostPort(m.Addr)
		n := startNode(t, xds.Options{Server: "localhost:" + port, TLS: &good})
		n.AwaitLog("x509: certificate is not valid for any names, but wanted to match localhost")
		conf := good
		conf.ServerName = "127.0.0.1"
		n = startNode(t, xds.Options{Server: "localhost:" + port, TLS: &conf})
		n.AwaitDomains("shop")
	})
	t.Run("wrong name", func(t *testing.T) {
		conf := good
		conf.ServerName = "management.example"
		n := startNode(t, xds.Options{Server: m.Addr, TLS: &conf})
		n.AwaitLog("wanted to match management.example")
		if n.Applied() != 0 || n.Streams() != 0 {
			t.Error("rules were taken from a server of another name")
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		conf := good
		conf.CA = ""
		n := startNode(t, xds.Options{Server: m.Addr, TLS: &conf})
		n.AwaitLog("certificate signed by unknown authority")
	})
	t.Run("no client certificate", func(t *testing.T) {
		conf := good
		conf.Key = ""
		n := startNode(t, xds.Options{Server: m.Addr, TLS: &conf})
		n.AwaitLog("it needs both a certificate and a key")
		n.AwaitLog("certificate required")
	})
	t.Run("no TLS", func(t *testing.T) {
		n := startNode(t, xds.Options{Server: m.Addr})
		n.AwaitLog("level=ERROR")
		if n.Applied() != 0 {
			t.Error("rules were taken without TLS")
		}
	})
}

func TestRenewedCertificatesAreRead(t *testing.T) {
	serverDir, clientDir := t.TempDir(), t.TempDir()
	serverCert, _, serverPair := servertest.Certificate(t, serverDir, "management")
	clientCert, clientKey, _ := servertest.Certificate(t, clientDir, "node")
	m := startManagement(t, "", mutual(t, serverPair, clientCert))
	m.Set("1", "shop")
	n := startNode(t, xds.Options{Server: m.Addr, TLS: &xds.TLS{Cert: clientCert, Key: clientKey, CA: serverCert, Compatible: true}})
	n.AwaitDomains("shop")
	m.Stop()
	_, _, serverPair = servertest.Certificate(t, serverDir, "management")
	servertest.Certificate(t, clientDir, "node")
	m.Set("2", "blog")
	m.Start(mutual(t, serverPair, clientCert))
	n.AwaitDomains("blog")
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "node")
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	for path, size := range map[string]int{empty: 0, large: 5 << 20} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(conf xds.TLS, want string) {
		t.Helper()
		conf.Compatible = true
		if _, err := xds.New(xds.Options{TLS: &conf}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", conf, err, want)
		}
	}
	f(xds.TLS{Cert: dir + "/none", Key: key}, "client certificate: open "+dir+"/none")
	f(xds.TLS{Cert: cert, Key: dir + "/none"}, "client key: open "+dir+"/none")
	f(xds.TLS{Cert: cert, Key: empty}, "client certificate, client key: "+cert+" with "+empty)
	f(xds.TLS{CA: dir + "/none"}, "server authorities: open")
	f(xds.TLS{CA: empty}, "holds no PEM certificate")
	f(xds.TLS{CA: large}, "is larger than 4194304 bytes")
}
