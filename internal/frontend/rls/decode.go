package rls

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/wire"
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

// Decode implements grpcserver.Message: it reads an
// envoy.service.ratelimit.v3.RateLimitRequest as generated code does, but that values
// need not be UTF-8: were it an error, a client could choose that it is not counted. The
// strings point into data.
func (c *call) Decode(data mem.Buffer) error {
	c.data = data
	return c.readRequest(data.ReadOnlyData())
}

func (c *call) readRequest(b []byte) error {
	return wire.Each(b, func(f wire.Field) (err error) {
		switch {
		case f.Is(1, protowire.BytesType):
			c.domain, err = f.Text()
		case f.Is(2, protowire.BytesType):
			err = c.readDescriptor(f.Bytes)
		case f.Is(3, protowire.VarintType):
			c.hits = uint32(f.N)
		}
		return err
	})
}

func (c *call) readDescriptor(b []byte) (err error) {
	d := descriptor{from: len(c.entries)}
	err = wire.Each(b, func(f wire.Field) (err error) {
		switch {
		case f.Is(1, protowire.BytesType):
			var e weir.Entry
			e, err = f.Entry()
			c.entries = append(c.entries, e)
		case f.Is(2, protowire.BytesType):
			d.limited = true
			err = d.override.mergeEncoded(f.Bytes)
		case f.Is(3, protowire.BytesType):
			d.hasHits = true
			err = readValue(f.Bytes, &d.hits)
		case f.Is(4, protowire.VarintType):
			d.negative = f.N != 0
		}
		return err
	})
	d.to = len(c.entries)
	c.descriptors = append(c.descriptors, d)
	return err
}

// mergeEncoded reads a RateLimitOverride on top of what o holds: that is what a second
// one in the same message means.
func (o *override) mergeEncoded(b []byte) error {
	return wire.Each(b, func(f wire.Field) (err error) {
		switch {
		case f.Is(1, protowire.VarintType):
			o.count = uint32(f.N)
		case f.Is(2, protowire.VarintType):
			o.unit = uint32(f.N)
		case f.Is(3, protowire.BytesType):
			o.hasTimes = true
			times := uint64(o.times)
			err = readValue(f.Bytes, &times)
			o.times = uint32(times)
		}
		return err
	})
}

// readValue reads a message of google.protobuf's wrappers of integers.
func readValue(b []byte, v *uint64) error {
	return wire.Each(b, func(f wire.Field) error {
		if f.Is(1, protowire.VarintType) {
			*v = f.N
		}
		return nil
	})
}
