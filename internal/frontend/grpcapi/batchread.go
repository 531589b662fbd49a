package grpcapi

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/wire"
)

// Decode implements grpcserver.Message: it reads a CheckBatchRequest as generated
// code does. The strings point into data.
func (b *batch) Decode(data mem.Buffer) error {
	b.data = data
	return wire.Each(data.ReadOnlyData(), func(f wire.Field) error {
		switch {
		case f.Is(1, protowire.BytesType):
			return b.readCheck(f.Bytes)
		case f.Is(2, protowire.BytesType):
			b.tabular = true
			return b.table.read(f.Bytes)
		}
		return nil
	})
}

func (b *batch) readCheck(p []byte) (err error) {
	c := check{from: len(b.descs)}
	err = wire.Each(p, func(f wire.Field) (err error) {
		switch {
		case f.Is(1, protowire.BytesType):
			c.domain, err = f.Text()
		case f.Is(2, protowire.BytesType):
			err = b.readDescriptor(f.Bytes)
		case f.Is(3, protowire.VarintType):
			c.cost, c.hasCost = int64(f.N), true
		case f.Is(4, protowire.VarintType):
			c.priority, c.hasPriority = uint32(f.N), true
		case f.Is(5, protowire.VarintType):
			c.peek = f.N != 0
		case f.Is(6, protowire.BytesType):
			c.lease, err = f.Text()
		case f.Is(7, protowire.VarintType):
			c.strict = f.N != 0
		}
		return err
	})
	c.to = len(b.descs)
	b.checks = append(b.checks, c)
	return err
}

func (b *batch) readDescriptor(p []byte) (err error) {
	d := descriptor{from: len(b.entries)}
	err = wire.Each(p, func(f wire.Field) (err error) {
		switch {
		case f.Is(1, protowire.BytesType):
			var e weir.Entry
			e, err = f.Entry(false)
			b.entries = append(b.entries, e)
		case f.Is(2, protowire.VarintType):
			d.cost, d.hasCost = int64(f.N), true
		case f.Is(3, protowire.VarintType):
			d.peek = f.N != 0
		}
		return err
	})
	d.to = len(b.entries)
	b.descs = append(b.descs, d)
	return err
}

// read reads a CheckTable on top of what t holds: that is what a second one in
// the same message means.
func (t *table) read(p []byte) error {
	return wire.Each(p, func(f wire.Field) (err error) {
		var s string
		switch {
		case f.Is(1, protowire.BytesType):
			t.domain, err = f.Text()
		case f.Is(2, protowire.BytesType):
			s, err = f.Text()
			t.keys = append(t.keys, s)
		case f.Is(3, protowire.BytesType):
			s, err = f.Text()
			t.values = append(t.values, s)
		case f.Is(4, protowire.VarintType):
			t.costs = append(t.costs, int64(f.N))
		case f.Is(4, protowire.BytesType):
			err = t.readCosts(f.Bytes)
		case f.Is(5, protowire.VarintType):
			t.priority, t.hasPriority = uint32(f.N), true
		case f.Is(6, protowire.VarintType):
			t.peek = f.N != 0
		case f.Is(7, protowire.VarintType):
			t.strict = f.N != 0
		}
		return err
	})
}

// readCosts reads packed integers.
func (t *table) readCosts(p []byte) error {
	for len(p) > 0 {
		v, n := protowire.ConsumeVarint(p)
		if n < 0 {
			return wire.ErrWire
		}
		t.costs, p = append(t.costs, int64(v)), p[n:]
	}
	return nil
}
