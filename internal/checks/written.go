package checks

import (
	"encoding/binary"

	"github.com/weirlimit/weir"
)

// Bounds on a request that is read.
const (
	mostEntries = 64      // those of Go programs too
	mostText    = 8 << 10 // bytes
)

// AppendRequest appends what rules match of r, in binary: domain, cost, priority and
// descriptors.
func AppendRequest(b []byte, r *weir.Request) []byte {
	b = AppendText(b, r.Domain)
	b = binary.AppendVarint(b, r.Cost)
	b = binary.AppendVarint(b, int64(r.Priority))
	b = binary.AppendUvarint(b, uint64(len(r.Descriptors)))
	for _, d := range r.Descriptors {
		peek := byte(0)
		if d.Peek {
			peek = 1
		}
		b = append(b, peek)
		b = binary.AppendVarint(b, d.Cost)
		b = binary.AppendUvarint(b, uint64(len(d.Entries)))
		for _, e := range d.Entries {
			b = AppendText(b, e.Key)
			b = AppendText(b, e.Value)
		}
	}
	return b
}

// AppendText appends s and its length.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Scanner reads what the functions of this file wrote. After the first fault it reads
// zeros.
type Scanner struct {
	Left []byte
	Bad  bool
}

// Request reads what AppendRequest appended.
func (s *Scanner) Request() *weir.Request {
	r := &weir.Request{Domain: s.Text()}
	r.Cost = s.Varint()
	r.Priority = int(s.Varint())
	for range s.Count(MaxDescriptors) {
		d := weir.Descriptor{Peek: s.Byte() == 1, Cost: s.Varint()}
		for range s.Count(mostEntries) {
			d.Entries = append(d.Entries, weir.Entry{Key: s.Text(), Value: s.Text()})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// Text reads what AppendText appended.
func (s *Scanner) Text() string { return string(s.Bytes(s.Count(mostText))) }

// Bytes reads n bytes.
func (s *Scanner) Bytes(n int) []byte {
	if s.Bad || n > len(s.Left) {
		s.Bad = true
		return nil
	}
	b := s.Left[:n]
	s.Left = s.Left[n:]
	return b
}

// Byte reads one.
func (s *Scanner) Byte() byte {
	if b := s.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Word reads 64 bits, the lowest first.
func (s *Scanner) Word() int64 {
	if b := s.Bytes(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// Varint reads a signed number.
func (s *Scanner) Varint() int64 {
	n, size := binary.Varint(s.Left)
	if s.Bytes(max(size, 0)); size <= 0 || s.Bad {
		s.Bad = true
		return 0
	}
	return n
}

// Count reads how many of something follow, at most most.
func (s *Scanner) Count(most int) int {
	n, size := binary.Uvarint(s.Left)
	if s.Bytes(max(size, 0)); size <= 0 || s.Bad || n > uint64(most) {
		s.Bad = true
		return 0
	}
	return int(n)
}
