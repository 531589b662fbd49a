// Package wire reads and writes protobuf messages field by field, in place, as
// generated code does it with more memory.
package wire

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirlimit/weir"
)

// Can be returned by the functions of this package.
var (
	ErrWire = errors.New("not a protobuf message of this kind")
	ErrUTF8 = errors.New("a string is not valid UTF-8")
)

// Field is one field of a message.
type Field struct {
	Num   protowire.Number
	Kind  protowire.Type
	Bytes []byte // of a BytesType; it shares the message's
	N     uint64 // of a VarintType
}

// Is reports whether the field is the one of the given number and type; one of
// another type is unknown.
func (f *Field) Is(num protowire.Number, kind protowire.Type) bool {
	return f.Num == num && f.Kind == kind
}

// Next reads the next field of b, and returns the rest.
func (f *Field) Next(b []byte) ([]byte, error) {
	num, kind, n := protowire.ConsumeTag(b)
	if n < 0 || num > protowire.MaxValidNumber {
		return nil, ErrWire
	}
	b = b[n:]
	f.Num, f.Kind = num, kind
	switch kind {
	case protowire.VarintType:
		f.N, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.Bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(num, kind, b)
	}
	if n < 0 {
		return nil, ErrWire
	}
	return b[n:], nil
}

// Each calls do for the fields of the message b in their order. It returns the first
// error of do, and [ErrWire] where b is no message.
func Each(b []byte, do func(f Field) error) (err error) {
	for f := (Field{}); len(b) > 0; {
		if b, err = f.Next(b); err != nil {
			return err
		}
		if err = do(f); err != nil {
			return err
		}
	}
	return nil
}

// Text returns the field's bytes as a string that shares them.
func (f *Field) Text() (string, error) {
	if !utf8.Valid(f.Bytes) {
		return "", ErrUTF8
	}
	return f.raw(), nil
}

func (f *Field) raw() string { return unsafe.String(unsafe.SliceData(f.Bytes), len(f.Bytes)) }

// Repair writes ! in place of each byte of b's strings that is not UTF-8, as Envoy does
// where it takes the trouble. d describes b, a message, and no message within it is
// looked at that is deeper than depth.
func Repair(b []byte, d protoreflect.MessageDescriptor, depth int) {
	// What is no message is left to whoever decodes it.
	_ = Each(b, func(f Field) error {
		switch as := d.Fields().ByNumber(f.Num); {
		case as == nil || f.Kind != protowire.BytesType || depth == 0:
		case as.Kind() == protoreflect.MessageKind:
			Repair(f.Bytes, as.Message(), depth-1)
		case as.Kind() == protoreflect.StringKind:
			for i, n := 0, 0; i < len(f.Bytes); i += n {
				var r rune
				if r, n = utf8.DecodeRune(f.Bytes[i:]); r == utf8.RuneError && n == 1 {
					f.Bytes[i] = '!'
				}
			}
		}
		return nil
	})
}

// Entry reads the field as a message of a key and a value, the fields 1 and 2, as
// descriptors of requests have them. The value need not be UTF-8: Envoy copies there
// what its clients send. The strings share the field's bytes.
func (f *Field) Entry() (e weir.Entry, err error) {
	err = Each(f.Bytes, func(part Field) (err error) {
		switch {
		case part.Is(1, protowire.BytesType):
			e.Key, err = part.Text()
		case part.Is(2, protowire.BytesType):
			e.Value = part.raw()
		}
		return err
	})
	return e, err
}

// AppendVarint appends an integer field, nothing if it is zero.
func AppendVarint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// AppendBool appends a field that is true, nothing if it is false.
func AppendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return AppendVarint(b, num, 1)
}

// AppendText appends a field of bytes, nothing if there are none. A string must
// be valid UTF-8.
func AppendText[T string | []byte](b []byte, num protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, num, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// Begin begins a message in a message, whose fields are appended next.
func Begin(b []byte, num protowire.Number) (more []byte, at int) {
	b = append(protowire.AppendTag(b, num, protowire.BytesType), 0)
	return b, len(b)
}

// End states the length of the message that began at.
func End(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	size := protowire.SizeVarint(uint64(n))
	for range size - 1 {
		b = append(b, 0)
	}
	copy(b[at-1+size:], b[at:at+n])
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}
