package reserve

import (
	"bytes"
	"testing"

	"github.com/weirlimit/weir"
)

// FuzzParse feeds the parser of tickets, which in life stands behind the
// signature: what it takes, it writes again the same.
func FuzzParse(f *testing.F) {
	full := ticket{expires: 1 << 50, request: &weir.Request{Domain: "d", Cost: -3, Priority: 2, Descriptors: []weir.Descriptor{
		{Entries: []weir.Entry{{Key: "k", Value: "v"}, {Key: "", Value: "\x00"}}, Cost: 7, Peek: true}, {}}},
		charges: []charge{{identity: 1, receipt: -1, cost: weir.MaxCost}, {identity: 1<<64 - 1}}}
	f.Add(full.append(nil))
	empty := ticket{request: &weir.Request{}}
	f.Add(empty.append(nil))
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parse(b)
		if !ok {
			return
		}
		again, ok := parse(got.append(nil))
		if !ok || !bytes.Equal(again.append(nil), got.append(nil)) {
			t.Fatalf("%x: reads as %+v, then as %+v", b, got, again)
		}
		if len(got.charges) > maxCharges || len(got.request.Descriptors) > maxDescriptors {
			t.Fatalf("%x: bounds are not kept", b)
		}
	})
}

// FuzzOpen feeds whole handles: none but those that were sealed may open.
func FuzzOpen(f *testing.F) {
	s := newSigner([]byte("0123456789abcdef"))
	empty := ticket{request: &weir.Request{}}
	sealed := s.seal(&empty)
	f.Add(sealed)
	f.Add("")
	f.Add(sealed[:len(sealed)-2])
	f.Fuzz(func(t *testing.T, handle string) {
		got, err := s.open(handle)
		if err == nil && !bytes.Equal(got.append(nil), empty.append(nil)) {
			t.Fatalf("forged: %q", handle)
		}
	})
}

// TestSizeIsABound: a handle is never longer than size says.
func TestSizeIsABound(t *testing.T) {
	s := newSigner([]byte("0123456789abcdef"))
	full := ticket{expires: -1, request: &weir.Request{Domain: "domain", Cost: weir.MaxCost, Priority: -1 << 60}}
	for range maxCharges {
		if h := s.seal(&full); len(h) > full.size() {
			t.Fatalf("handle has %d bytes, size says %d", len(h), full.size())
		}
		full.charges = append(full.charges, charge{identity: 1<<64 - 1, receipt: -1 << 63, cost: -1 << 63})
		full.request.Descriptors = append(full.request.Descriptors, weir.Descriptor{Cost: -1 << 63, Peek: true,
			Entries: []weir.Entry{{Key: "key", Value: "value"}, {}}})
	}
}
