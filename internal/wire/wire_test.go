package wire

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Messages in messages get their length right however long they are.
func TestLengths(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 2097151, 2097152} {
		b, at := Begin([]byte("before"), 9)
		b = append(b, make([]byte, n)...)
		b = End(b, at)
		num, kind, tag := protowire.ConsumeTag(b[6:])
		in, size := protowire.ConsumeBytes(b[6+tag:])
		if num != 9 || kind != protowire.BytesType || len(in) != n || size != len(b)-6-tag {
			t.Errorf("%d bytes: field %d of %d bytes, %d in all", n, num, len(in), size)
		}
	}
}

func TestFields(t *testing.T) {
	b := AppendBool(AppendText(AppendVarint(nil, 1, 300), 2, "text"), 3, true)
	b = AppendBool(AppendText(AppendVarint(b, 1, 0), 2, []byte(nil)), 3, false) // nothing
	var f Field
	var err error
	if b, err = f.Next(b); err != nil || !f.Is(1, protowire.VarintType) || f.N != 300 {
		t.Errorf("%+v, %v", f, err)
	}
	if b, err = f.Next(b); err != nil || !f.Is(2, protowire.BytesType) {
		t.Errorf("%+v, %v", f, err)
	}
	if s, err := f.Text(); s != "text" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if b, err = f.Next(b); err != nil || !f.Is(3, protowire.VarintType) || f.N != 1 || len(b) != 0 {
		t.Errorf("%+v, %v, %x left", f, err, b)
	}
	for _, bad := range []string{"\x08", "\x0a\x05abc", "\x00\x00", "\x0c", "\xff\xff\xff\xff\x7f\x01", "\x0f"} {
		if _, err := f.Next([]byte(bad)); err != ErrWire {
			t.Errorf("%q: %v", bad, err)
		}
	}
	f.Bytes = []byte("\xff")
	if _, err := f.Text(); err != ErrUTF8 {
		t.Error(err)
	}
}
