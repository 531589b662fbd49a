package rls

import (
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/wire"
)

// Fields of google.protobuf.Value.
const (
	valueNumber = 2
	valueString = 3
	valueBool   = 4
	valueStruct = 5
)

// appendMetadata appends the answer's dynamic_metadata: the limit that spoke, and
// what the decision promises.
func appendMetadata(b []byte, d weir.Decision, g weir.Guarantee) []byte {
	b, all := wire.Begin(b, 6)
	b = appendBool(b, "allowed", d.Allowed())
	if d.Limit != nil {
		b = appendString(b, "limit", validText(d.Limit.Name))
		if !d.Limit.RefusesAll() {
			b = appendString(b, "algorithm", d.Limit.Algorithm.Name())
		}
	}
	b, at := beginPair(b, "guarantee")
	b, value := wire.Begin(b, 2)
	b, in := wire.Begin(b, valueStruct)
	b = appendBool(b, "exact", g.Exact)
	b = appendBool(b, "degraded", g.Degraded)
	if g.OverAdmit != weir.Unbounded {
		b = appendNumber(b, "over_admit", g.OverAdmit)
	}
	if g.AtMost != weir.Unbounded {
		b = appendNumber(b, "at_most", g.AtMost)
	}
	b = appendString(b, "source", g.Source.String())
	b = wire.End(wire.End(wire.End(b, in), value), at)
	return wire.End(b, all)
}

// beginPair begins an entry of a google.protobuf.Struct.
func beginPair(b []byte, key string) (more []byte, at int) {
	b, at = wire.Begin(b, 1)
	return wire.AppendText(b, 1, key), at
}

// Values are told also where they are the zero of their kind: they are members of
// a oneof.

func appendBool(b []byte, key string, v bool) []byte {
	b, at := beginPair(b, key)
	b, value := wire.Begin(b, 2)
	b = protowire.AppendVarint(protowire.AppendTag(b, valueBool, protowire.VarintType), protowire.EncodeBool(v))
	return wire.End(wire.End(b, value), at)
}

func appendString(b []byte, key, v string) []byte {
	b, at := beginPair(b, key)
	b, value := wire.Begin(b, 2)
	b = protowire.AppendString(protowire.AppendTag(b, valueString, protowire.BytesType), v)
	return wire.End(wire.End(b, value), at)
}

func appendNumber(b []byte, key string, v int64) []byte {
	b, at := beginPair(b, key)
	b, value := wire.Begin(b, 2)
	b = protowire.AppendFixed64(protowire.AppendTag(b, valueNumber, protowire.Fixed64Type), math.Float64bits(float64(v)))
	return wire.End(wire.End(b, value), at)
}

// validText returns s as a string field can hold it.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "_")
}
