package rls

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir"
)

// descriptor is a RateLimitDescriptor as it came.
type descriptor struct {
	from, to int // its entries
	override override
	limited  bool // there is an override
	hits     uint64
	hasHits  bool // else those of the request
	negative bool
}

// override is a RateLimitOverride, or part of one.
type override struct {
	count, unit, times uint32
	hasTimes           bool // else once
}

var (
	errWire = errors.New("rls: not a RateLimitRequest")
	errUTF8 = errors.New("rls: a string is not valid UTF-8")
)

// Decode implements grpcserver.Message: it reads an
// envoy.service.ratelimit.v3.RateLimitRequest as generated code does. The strings
// point into data.
func (c *call) Decode(data mem.Buffer) error {
	c.data = data
	return c.readRequest(data.ReadOnlyData())
}

// field is one field of a message.
type field struct {
	num   protowire.Number
	kind  protowire.Type
	bytes []byte // of a BytesType
	n     uint64 // of a VarintType
}

// is reports whether the field is the one of the given number and type; one of
// another type is unknown.
func (f *field) is(num protowire.Number, kind protowire.Type) bool {
	return f.num == num && f.kind == kind
}

// next reads the next field of b, and returns the rest.
func (f *field) next(b []byte) ([]byte, error) {
	num, kind, n := protowire.ConsumeTag(b)
	if n < 0 || num > protowire.MaxValidNumber {
		return nil, errWire
	}
	b = b[n:]
	f.num, f.kind = num, kind
	switch kind {
	case protowire.VarintType:
		f.n, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(num, kind, b)
	}
	if n < 0 {
		return nil, errWire
	}
	return b[n:], nil
}

// text returns the field's bytes as a string that shares them.
func (f *field) text() (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errUTF8
	}
	if len(f.bytes) == 0 {
		return "", nil
	}
	return unsafe.String(&f.bytes[0], len(f.bytes)), nil
}

func (c *call) readRequest(b []byte) (err error) {
	var f field
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			c.domain, err = f.text()
		case f.is(2, protowire.BytesType):
			err = c.readDescriptor(f.bytes)
		case f.is(3, protowire.VarintType):
			c.hits = uint32(f.n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *call) readDescriptor(b []byte) (err error) {
	d := descriptor{from: len(c.entries)}
	var f field
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			err = c.readEntry(f.bytes)
		case f.is(2, protowire.BytesType):
			d.limited = true
			err = d.override.read(f.bytes)
		case f.is(3, protowire.BytesType):
			d.hasHits = true
			err = readValue(f.bytes, &d.hits)
		case f.is(4, protowire.VarintType):
			d.negative = f.n != 0
		}
		if err != nil {
			return err
		}
	}
	d.to = len(c.entries)
	c.descriptors = append(c.descriptors, d)
	return nil
}

func (c *call) readEntry(b []byte) (err error) {
	var e weir.Entry
	var f field
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			e.Key, err = f.text()
		case f.is(2, protowire.BytesType):
			e.Value, err = f.text()
		}
		if err != nil {
			return err
		}
	}
	c.entries = append(c.entries, e)
	return nil
}

// read reads a RateLimitOverride on top of what o holds: that is what a second
// one in the same message means.
func (o *override) read(b []byte) (err error) {
	var f field
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.VarintType):
			o.count = uint32(f.n)
		case f.is(2, protowire.VarintType):
			o.unit = uint32(f.n)
		case f.is(3, protowire.BytesType):
			o.hasTimes = true
			times := uint64(o.times)
			err = readValue(f.bytes, &times)
			o.times = uint32(times)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readValue reads a message of google.protobuf's wrappers of integers.
func readValue(b []byte, v *uint64) (err error) {
	var f field
	for len(b) > 0 {
		if b, err = f.next(b); err != nil {
			return err
		}
		if f.is(1, protowire.VarintType) {
			*v = f.n
		}
	}
	return nil
}
