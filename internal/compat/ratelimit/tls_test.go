package ratelimit_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	server, good, stranger := t.TempDir(), t.TempDir(), t.TempDir()
	cert, key, pair := servertest.Certificate(t, server, "ratelimit")
	_, _, client := servertest.Certificate(t, good, "client")
	_, _, other := servertest.Certificate(t, stranger, "stranger")
	ca := filepath.Join(server, "ca.pem")
	copyFile(t, filepath.Join(good, "cert.pem"), ca)
	env := append(inPlace(root), "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+cert, "GRPC_SERVER_TLS_KEY="+key, "GRPC_CLIENT_TLS_CACERT="+ca)
	n := start(t, program, append(env, "GRPC_CLIENT_TLS_SAN=127.0.0.1")...)
	asks := func(n *node, server tls.Certificate, shows ...tls.Certificate) error {
		t.Helper()
		roots := x509.NewCertPool()
		leaf, err := x509.ParseCertificate(server.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		roots.AddCert(leaf)
		conn := n.dial(grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: shows, ServerName: "127.0.0.1"})))
		defer conn.Close()
		_, err = ask(t, conn, "shop", "user=ann")
		return err
	}
	if err := asks(n, pair, client); err != nil {
		t.Errorf("a good client: %v", err)
	}
	if err := asks(n, pair, other); err == nil {
		t.Error("a client of another authority is let in")
	}
	if err := asks(n, pair); err == nil {
		t.Error("a client without a certificate is let in")
	}
	if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
		t.Errorf("/healthcheck, which is not encrypted: %d", code)
	}
	// A new certificate, in place of the old one.
	_, _, renewed := servertest.Certificate(t, server, "renewed")
	servertest.Await(t, "the new certificate", func() bool { return asks(n, renewed, client) == nil })
	n.series("certs_load_attempts", 2)
	n.series("certs_num_values", 3)

	n = start(t, program, append(env, "GRPC_CLIENT_TLS_SAN=envoy.example.com")...)
	if err := asks(n, renewed, client); err == nil {
		t.Error("a client whose certificate is for another name is let in")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
