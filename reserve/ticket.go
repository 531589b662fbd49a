package reserve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/micros"
)

// MaxHandle is the longest handle, in bytes.
const MaxHandle = 8 << 10

// maxCharges is how many charges a ticket holds at most.
const maxCharges = 64

// version is the first byte of every ticket that names a node. Another layout gets
// another. Those of version 2 name none, and of version 1 neither their region nor when and
// at which rate they were charged.
const version = 3

// ticket is what a handle says.
type ticket struct {
	id      [16]byte
	expires int64 // microseconds since the Unix epoch, by the store's clock
	// region is where the reservation was made; empty where regions have no names.
	region string
	// node is the one that counts alone what was charged, by some limit; zero: none does.
	node uint64
	// request holds what the rules match: domain, descriptors, cost, priority.
	request *weir.Request
	charges []charge
}

// charge is one limit that was charged.
type charge struct {
	identity uint64
	receipt  int64
	cost     int64
	// charged is when, and count and period the rate by which, a bucket was charged:
	// it charges time. Zero for others, and in tickets of version 1.
	charged, count, period int64
	settled                bool // not in the handle: found again
}

// reservedCost returns the cost that was reserved.
func (t *ticket) reservedCost() int64 {
	if t.request.Cost == 0 {
		return 1
	}
	return t.request.Cost
}

// fillRequest makes r ask what t asked. r shares t's strings.
func (t *ticket) fillRequest(r *weir.Request) {
	r.Domain, r.Priority = t.request.Domain, t.request.Priority
	r.Descriptors = append(r.Descriptors[:0], t.request.Descriptors...)
}

// noteCharges notes what ops were charged on s.
func (t *ticket) noteCharges(s weir.Store, ops []weir.Op) {
	for i := range ops {
		if o := &ops[i]; o.Charged && o.Cost > 0 {
			node, alone := weir.NodeOf(s, o.Limit)
			if alone {
				t.node = node
			}
			c := charge{identity: identity(o, alone), receipt: o.Receipt(), cost: o.Cost}
			if o.Limit.Traits()&weir.Refills != 0 {
				c.charged, c.count, c.period = o.Now, o.Limit.Count, micros.Of(o.Limit.Period)
				if o.ChargedAt != 0 {
					c.charged = o.ChargedAt
				}
			}
			t.charges = append(t.charges, c)
		}
	}
}

// identity names the counter of o, that of the node if it counts alone: the same on every
// node and after a restart. Two counters of one request share a name with a chance of 2^-64.
func identity(o *weir.Op, alone bool) uint64 {
	l := o.Limit
	h := sha256.New()
	var n [8]byte
	parts := []string{l.Scope, l.Algorithm.Name(), l.Layout, o.Key, "\x1fnode"}
	if !alone {
		parts = parts[:4]
	}
	for _, part := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// pickCharge returns the first charge of the given identity that was not picked yet.
func pickCharge(cs []charge, identity uint64) (charge, bool) {
	for i := range cs {
		if c := &cs[i]; c.identity == identity && !c.settled {
			c.settled = true
			return *c, true
		}
	}
	return charge{}, false
}

// handleSize returns the length of t's handle, or a bound on it.
func (t *ticket) handleSize() int {
	r := t.request
	n := 1 + 16 + 8 + 8 + 5*binary.MaxVarintLen64 + len(t.region) + len(r.Domain)
	for _, d := range r.Descriptors {
		n += 2*binary.MaxVarintLen64 + 1
		for _, e := range d.Entries {
			n += 2*binary.MaxVarintLen64 + len(e.Key) + len(e.Value)
		}
	}
	n += len(t.charges) * (8 + 5*binary.MaxVarintLen64)
	return base64.RawURLEncoding.EncodedLen(n + sha256.Size)
}

// appendTo appends t in its binary form.
func (t *ticket) appendTo(b []byte) []byte {
	r := t.request
	if t.node == 0 {
		b = append(b, version-1) // which a node of an earlier version reads
	} else {
		b = binary.LittleEndian.AppendUint64(append(b, version), t.node)
	}
	b = append(b, t.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.expires))
	b = checks.AppendText(b, t.region)
	b = checks.AppendRequest(b, r)
	b = binary.AppendUvarint(b, uint64(len(t.charges)))
	for _, c := range t.charges {
		b = binary.LittleEndian.AppendUint64(b, c.identity)
		b = binary.AppendVarint(b, c.receipt)
		b = binary.AppendVarint(b, c.cost)
		b = binary.AppendVarint(b, c.charged)
		b = binary.AppendVarint(b, c.count)
		b = binary.AppendVarint(b, c.period)
	}
	return b
}

// parseTicket reads a ticket; ok is false unless b is exactly one.
func parseTicket(b []byte) (t ticket, ok bool) {
	s := checks.Scanner{Left: b}
	v := s.Byte()
	if v < 1 || v > version {
		return ticket{}, false
	}
	if v > 2 {
		t.node = uint64(s.Word())
	}
	copy(t.id[:], s.Bytes(len(t.id)))
	t.expires = s.Word()
	if v > 1 {
		t.region = s.Text()
	}
	t.request = s.Request()
	for range s.Count(maxCharges) {
		c := charge{identity: uint64(s.Word()), receipt: s.Varint(), cost: s.Varint()}
		if v > 1 {
			c.charged, c.count, c.period = s.Varint(), s.Varint(), s.Varint()
		}
		t.charges = append(t.charges, c)
	}
	return t, !s.Bad && len(s.Left) == 0
}

// signer turns tickets into handles and back.
type signer struct{ key []byte }

// newSigner returns a signer whose key is derived from secret, so that a
// secret which signs something else too makes no handles by accident.
func newSigner(secret []byte) signer {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("weir reservation handle 1"))
	return signer{m.Sum(nil)}
}

func (s signer) signBytes(b []byte) []byte {
	m := hmac.New(sha256.New, s.key)
	m.Write(b)
	return m.Sum(nil)
}

// sealTicket returns t's handle.
func (s signer) sealTicket(t *ticket) string {
	b := t.appendTo(nil)
	return base64.RawURLEncoding.EncodeToString(append(b, s.signBytes(b)...))
}

// openHandle returns the ticket of a handle, or ErrHandle.
func (s signer) openHandle(handle string) (ticket, error) {
	// Go's decoder passes over line ends, so one handle would have many texts.
	if len(handle) > MaxHandle || strings.ContainsAny(handle, "\r\n") {
		return ticket{}, ErrHandle
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(handle)
	if err != nil || len(b) < sha256.Size {
		return ticket{}, ErrHandle
	}
	b, mac := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(mac, s.signBytes(b)) {
		return ticket{}, ErrHandle
	}
	t, ok := parseTicket(b)
	if !ok {
		return ticket{}, ErrHandle
	}
	return t, nil
}
