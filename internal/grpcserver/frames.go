package grpcserver

import "encoding/binary"

// Types and flags of HTTP/2 frames (RFC 9113 §6).
const (
	typeData    = 0x0
	typeHeaders = 0x1
	typeReset   = 0x3
	typeGoAway  = 0x7

	flagEndStream = 0x1
)

const headerBytes = 9

// frames follows the HTTP/2 frames of one direction of a connection, however they
// are cut into pieces. The zero value begins at a frame.
type frames struct {
	// skip is what is left before the next header: of a payload, or of the preface.
	skip int
	head [headerBytes]byte
	have int // bytes of head
	// kind, flags, stream and length are of the frame whose payload is being skipped.
	kind, flags byte
	stream      uint32
	length      int
	// inFrame: the end of that frame is still to be told.
	inFrame bool
}

// followFrame follows b up to the next end of a frame, and returns how many bytes that is
// and whether the frame has ended there.
func (f *frames) followFrame(b []byte) (n int, ended bool) {
	for n < len(b) || f.inFrame && f.skip == 0 {
		if f.skip > 0 {
			k := min(f.skip, len(b)-n)
			n, f.skip = n+k, f.skip-k
			if f.skip > 0 {
				return n, false
			}
		}
		if f.inFrame {
			f.inFrame = false
			return n, true
		}
		k := copy(f.head[f.have:], b[n:])
		n, f.have = n+k, f.have+k
		if f.have < headerBytes {
			return n, false
		}
		f.have, f.inFrame = 0, true
		f.length = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		f.skip = f.length
		f.kind, f.flags = f.head[3], f.head[4]
		f.stream = binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31)
	}
	return n, false
}

// between reports whether the bytes so far end with a frame.
func (f *frames) between() bool { return f.skip == 0 && f.have == 0 && !f.inFrame }

// resetFrame returns a RST_STREAM frame.
func resetFrame(stream, code uint32) []byte {
	b := []byte{0, 0, 4, typeReset, 0}
	b = binary.BigEndian.AppendUint32(b, stream)
	return binary.BigEndian.AppendUint32(b, code)
}

// goAwayFrame returns a GOAWAY frame: the connection ends, and calls on streams above
// last were not carried out.
func goAwayFrame(last uint32) []byte {
	const noError = 0
	b := []byte{0, 0, 8, typeGoAway, 0, 0, 0, 0, 0}
	b = binary.BigEndian.AppendUint32(b, last)
	return binary.BigEndian.AppendUint32(b, noError)
}
