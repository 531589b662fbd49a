package grpcapi

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/wire"
)

// Decode implements grpcserver.Message: it reads a CheckBatchRequest. The strings of a
// table point into data; a list is read by generated code, unless it is too long.
func (b *batch) Decode(data mem.Buffer) error {
	b.data = data
	err := wire.Each(data.ReadOnlyData(), func(f wire.Field) error {
		switch {
		case f.Is(1, protowire.BytesType):
			b.listed++
		case f.Is(2, protowire.BytesType):
			b.tabular = true
			return b.table.mergeEncoded(f.Bytes)
		}
		return nil
	})
	if err != nil || b.listed == 0 || b.listed > checks.MaxRequests {
		return err
	}
	return proto.Unmarshal(data.ReadOnlyData(), &b.list)
}

// mergeEncoded reads a CheckTable on top of what t holds: that is what a second one in
// the same message means.
func (t *table) mergeEncoded(p []byte) error {
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
			t.strict = new(f.N != 0)
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
