package reserve

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// FuzzParse feeds the parser of tickets, which in life stands behind the
// signature: what it takes, it writes again the same.
func FuzzParse(f *testing.F) {
	full := ticket{expires: 1 << 50, region: "eu", request: &weir.Request{Domain: "d", Cost: -3, Priority: 2, Descriptors: []weir.Descriptor{
		{Entries: []weir.Entry{{Key: "k", Value: "v"}, {Key: "", Value: "\x00"}}, Cost: 7, Peek: true}, {}}},
		charges: []charge{{identity: 1, receipt: -1, cost: weir.MaxCost}, {identity: 1<<64 - 1, charged: 1 << 50, count: 7, period: 60e6}}}
	f.Add(full.appendTo(nil))
	f.Add(appendFirst(&full))
	empty := ticket{request: &weir.Request{}}
	f.Add(empty.appendTo(nil))
	f.Add([]byte{version})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseTicket(b)
		if !ok {
			return
		}
		again, ok := parseTicket(got.appendTo(nil))
		if !ok || !bytes.Equal(again.appendTo(nil), got.appendTo(nil)) {
			t.Fatalf("%x: reads as %+v, then as %+v", b, got, again)
		}
		if len(got.charges) > maxCharges || len(got.request.Descriptors) > checks.MaxDescriptors {
			t.Fatalf("%x: bounds are not kept", b)
		}
	})
}

// appendFirst is ticket.appendTo as it was in version 1.
func appendFirst(t *ticket) []byte {
	r := t.request
	b := append([]byte{1}, t.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.expires))
	b = checks.AppendText(b, r.Domain)
	b = binary.AppendVarint(b, r.Cost)
	b = binary.AppendVarint(b, int64(r.Priority))
	b = binary.AppendUvarint(b, uint64(len(r.Descriptors)))
	for _, d := range r.Descriptors {
		b = binary.AppendVarint(append(b, byte(0)), d.Cost)
		b = binary.AppendUvarint(b, uint64(len(d.Entries)))
		for _, e := range d.Entries {
			b = checks.AppendText(checks.AppendText(b, e.Key), e.Value)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(t.charges)))
	for _, c := range t.charges {
		b = binary.LittleEndian.AppendUint64(b, c.identity)
		b = binary.AppendVarint(b, c.receipt)
		b = binary.AppendVarint(b, c.cost)
	}
	return b
}

// Handles of the version before settle what they reserved, where they may: they do
// not say in which region that was.
func TestHandlesOfTheVersionBefore(t *testing.T) {
	store := clocked.New(t)
	open := func(opt Options) *Reserver {
		opt.Secret = []byte("0123456789abcdef")
		lim, err := weir.New(store, weir.Limits{weir.PerHour(1000, algorithm.FixedWindow)}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(lim, opt)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		opt  Options
		want error
	}{
		{Options{}, nil},
		{Options{Region: "eu"}, ErrRegion},
	} {
		s := open(c.opt)
		r := &weir.Request{Cost: 300, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: "ann"}}}}}
		res, err := s.Reserve(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		full, err := s.signer.openHandle(res.Handle)
		if err != nil || full.region != c.opt.Region {
			t.Fatalf("%+v, %v", full, err)
		}
		b := appendFirst(&full)
		first := base64.RawURLEncoding.EncodeToString(append(b, s.signer.signBytes(b)...))
		if _, err := s.Cancel(t.Context(), first); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.opt, err, c.want)
		}
		if c.want == nil {
			if _, err := s.Commit(t.Context(), res.Handle, 5); !errors.Is(err, ErrSettled) {
				t.Errorf("settled again by the handle of today: %v", err)
			}
		}
	}
}

// FuzzOpen feeds whole handles: none but those that were sealed may open.
func FuzzOpen(f *testing.F) {
	s := newSigner([]byte("0123456789abcdef"))
	empty := ticket{request: &weir.Request{}}
	sealed := s.sealTicket(&empty)
	f.Add(sealed)
	f.Add("")
	f.Add(sealed[:len(sealed)-2])
	f.Fuzz(func(t *testing.T, handle string) {
		got, err := s.openHandle(handle)
		if err == nil && !bytes.Equal(got.appendTo(nil), empty.appendTo(nil)) {
			t.Fatalf("forged: %q", handle)
		}
	})
}

// TestSizeIsABound: a handle is never longer than size says.
func TestSizeIsABound(t *testing.T) {
	s := newSigner([]byte("0123456789abcdef"))
	full := ticket{expires: -1, region: "region", request: &weir.Request{Domain: "domain", Cost: weir.MaxCost, Priority: -1 << 60}}
	for range maxCharges {
		if h := s.sealTicket(&full); len(h) > full.handleSize() {
			t.Fatalf("handle has %d bytes, size says %d", len(h), full.handleSize())
		}
		full.charges = append(full.charges, charge{identity: 1<<64 - 1, receipt: -1 << 63, cost: -1 << 63, charged: -1 << 63, count: -1 << 63, period: -1 << 63})
		full.request.Descriptors = append(full.request.Descriptors, weir.Descriptor{Cost: -1 << 63, Peek: true,
			Entries: []weir.Entry{{Key: "key", Value: "value"}, {}}})
	}
}
