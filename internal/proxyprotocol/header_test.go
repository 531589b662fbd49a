package proxyprotocol

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/address"
)

// FuzzHeader: whatever comes, at most a header is read, and what follows
// one is left where it is.
func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		"PROXY TCP4 203.0.113.7 10.0.0.1 4711 443\r\nGET /", "PROXY UNKNOWN\r\n", "PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "GET / HTTP/1.1\r\n",
		address.ProxyV2 + "\x21\x11\x00\x0c\xcb\x00\x71\x07\x0a\x00\x00\x01\x12\x67\x01\xbbGET", address.ProxyV2 + "\x20\x00\x00\x00", address.ProxyV2 + "\x21\x21\xff\xff",
		address.ProxyV2 + "\x21\x11\x00\x10\xcb\x00\x71\x07\x0a\x00\x00\x01\x12\x67\x01\xbb\x04\x00\x01x",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		client, err := readHeader(r)
		read := data[:len(data)-r.Len()]
		if err != nil {
			if client.IsValid() || len(read) > fixedV2+maxProxyV2 {
				t.Fatalf("%q: %s, %d bytes read", data, client, len(read))
			}
			return
		}
		switch {
		case bytes.HasPrefix(data, []byte(address.ProxyV2)):
			if want := fixedV2 + int(data[14])<<8 + int(data[15]); len(read) != want {
				t.Fatalf("%d bytes read of %d", len(read), want)
			}
		case !bytes.HasSuffix(read, []byte("\r\n")) || len(read) > maxProxyV1 || bytes.Count(read, []byte("\n")) != 1:
			t.Fatalf("read %q", read)
		default:
			if a := client.Addr(); a.IsValid() && !strings.Contains(string(read), " "+a.String()+" ") && !a.Is6() && !strings.Contains(string(read), ":") {
				t.Fatalf("%q names %s", read, a)
			}
		}
		if a := client.Addr(); a.Is4In6() || a.Zone() != "" {
			t.Fatalf("%q: %s", data, a)
		}
		// In pieces it reads the same.
		again, err := readHeader(io.LimitReader(&slowly{data}, int64(len(read))))
		if again != client || err != nil {
			t.Fatalf("%q: %s, and %s, %v in pieces", data, client, again, err)
		}
	})
}

// slowly gives a byte at a time.
type slowly struct{ left []byte }

func (s *slowly) Read(b []byte) (int, error) {
	if len(s.left) == 0 || len(b) == 0 {
		return 0, io.EOF
	}
	b[0], s.left = s.left[0], s.left[1:]
	return 1, nil
}
