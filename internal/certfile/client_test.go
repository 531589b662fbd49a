package certfile

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDialByHalfWrittenFiles: what the files said before serves while they cannot be used, and
// an error says that they cannot.
func TestDialByHalfWrittenFiles(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	c := Client{CA: filepath.Join(t.TempDir(), "ca.pem")}
	write := func(text []byte) {
		if err := os.WriteFile(c.CA, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	conf, err := c.Config(&tls.Config{ServerName: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	dial := func() error {
		conn, err := c.Dial(t.Context(), &net.Dialer{}, conf, "tcp", s.Listener.Addr().String())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	for _, text := range [][]byte{nil, []byte("-----BEGIN")} {
		if err := dial(); err != nil {
			t.Error(err)
		}
		write(text)
	}
	if err := dial(); err != nil {
		t.Errorf("by what the file said before: %v", err)
	}
	s.Close()
	if err := dial(); err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "ca.pem holds no PEM") {
		t.Errorf("neither by the file nor by what it said before: %v", err)
	}
}
