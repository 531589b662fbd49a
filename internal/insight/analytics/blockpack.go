package analytics

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// clientBlock is the rows of a limit in a span of time, in order of clients and times.
type clientBlock struct {
	clients []string
	rows    []int // of each client
	at      []int64
	// cells and words are the columns. Of one that is the same in all rows there can be one
	// value alone.
	cells [numCells][]int64
	words [numWords][]string
}

// add adds a row.
func (b *clientBlock) add(l *clientLine) {
	if n := len(b.clients); n == 0 || b.clients[n-1] != l.client {
		b.clients, b.rows = append(b.clients, l.client), append(b.rows, 0)
	}
	b.rows[len(b.rows)-1]++
	b.at = append(b.at, l.at)
	for c, n := range l.n {
		b.cells[c] = append(b.cells[c], n)
	}
	for c, w := range l.w {
		b.words[c] = append(b.words[c], w)
	}
}

// pack calls each with the columns as bytes. A column of nothing but zeros is left out.
func (b *clientBlock) pack(begins int64, g Grain, each func(name string, bits []byte)) {
	out := binary.AppendUvarint(nil, uint64(len(b.at)))
	out = binary.AppendUvarint(out, uint64(len(b.clients)))
	row := 0
	for i, client := range b.clients {
		out = appendWord(out, client)
		out = binary.AppendUvarint(out, uint64(b.rows[i]))
		for range b.rows[i] {
			out = binary.AppendUvarint(out, uint64((b.at[row]-begins)/g.Seconds()))
			row++
		}
	}
	each(clientColumn, out)
	for c := range b.cells {
		if bits := packCells(b.cells[c], c, b.at); bits != nil {
			each(cellColumns[c].name, bits)
		}
	}
	for w := range b.words {
		if bits := packWords(b.words[w]); bits != nil {
			each(wordColumns[w], bits)
		}
	}
}

func appendWord(to []byte, word string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(word))), word...)
}

// Kinds of columns of numbers: one for all rows, or one for each.
const (
	sameCells     = 1
	separateCells = 0
)

// instants reports whether a cell is an instant, which is told from the row's own.
func instants(cell int) bool { return cell == cFirst || cell == cLast }

// packCells returns numbers as bytes: their kind, then varints.
func packCells(n []int64, cell int, at []int64) []byte {
	value := func(i int) int64 {
		if instants(cell) {
			return n[i] - at[i]*1e6
		}
		return n[i]
	}
	same := true
	for i := range n {
		same = same && value(i) == value(0)
	}
	switch {
	case same && value(0) == 0:
		return nil
	case same:
		return binary.AppendVarint([]byte{sameCells}, value(0))
	}
	out := append(make([]byte, 0, 1+2*len(n)), separateCells)
	for i := range n {
		out = binary.AppendVarint(out, value(i))
	}
	return out
}

// packWords returns words as bytes: the different ones, then which of them each row has,
// unless all have one.
func packWords(words []string) []byte {
	numbers := map[string]int{}
	var different []string
	for _, w := range words {
		if _, ok := numbers[w]; !ok {
			numbers[w] = len(different)
			different = append(different, w)
		}
	}
	if len(different) == 1 && different[0] == "" {
		return nil
	}
	out := binary.AppendUvarint(nil, uint64(len(different)))
	for _, w := range different {
		out = appendWord(out, w)
	}
	if len(different) > 1 {
		for _, w := range words {
			out = binary.AppendUvarint(out, uint64(numbers[w]))
		}
	}
	return out
}

var errBlock = errors.New("a block of clients cannot be read: the row was changed by others")

// blockReader reads packed columns.
type blockReader struct {
	bits []byte
	bad  bool
}

func (r *blockReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.bits)
	r.skip(n)
	return v
}

func (r *blockReader) varint() int64 {
	v, n := binary.Varint(r.bits)
	r.skip(n)
	return v
}

// skip passes over n bytes that were read; none were if n is not positive.
func (r *blockReader) skip(n int) {
	if n <= 0 {
		r.bad, r.bits = true, nil
		return
	}
	r.bits = r.bits[n:]
}

// count reads how many follow, of which each takes a byte at least.
func (r *blockReader) count() int {
	n := r.uvarint()
	if n > uint64(len(r.bits)) {
		r.skip(0)
		return 0
	}
	return int(n)
}

func (r *blockReader) word() string {
	n := r.count()
	w := string(r.bits[:n])
	r.bits = r.bits[n:]
	return w
}

// unpackClients is the reverse of pack, of clients and times.
func (b *clientBlock) unpackClients(bits []byte, begins int64, g Grain) error {
	r := &blockReader{bits: bits}
	n, clients := r.count(), r.count()
	b.clients, b.rows, b.at = slices.Grow(b.clients[:0], clients), slices.Grow(b.rows[:0], clients), slices.Grow(b.at[:0], n)
	for range clients {
		b.clients = append(b.clients, r.word())
		rows := r.count()
		b.rows = append(b.rows, rows)
		for range rows {
			b.at = append(b.at, begins+int64(min(r.uvarint(), math.MaxInt32))*g.Seconds())
		}
	}
	if r.bad || len(r.bits) > 0 || n == 0 || len(b.at) != n {
		return errBlock
	}
	return nil
}

// unpackCells is the reverse of packCells.
func unpackCells(to []int64, bits []byte, cell int, at []int64) ([]int64, error) {
	same, v := len(bits) == 0, int64(0)
	r := &blockReader{}
	if !same {
		r.bits = bits[1:]
		if same = bits[0] == sameCells; same {
			v = r.varint()
		} else if bits[0] != separateCells {
			return nil, errBlock
		}
	}
	if same && !instants(cell) {
		to = append(to[:0], v)
	} else {
		to = slices.Grow(to[:0], len(at))[:len(at)]
		for i := range to {
			if to[i] = v; !same {
				to[i] = r.varint()
			}
			if instants(cell) {
				to[i] += at[i] * 1e6
			}
		}
	}
	if r.bad || len(r.bits) > 0 {
		return to, errBlock
	}
	return to, nil
}

// unpackWords is the reverse of packWords.
func unpackWords(to []string, bits []byte, rows int) ([]string, error) {
	if len(bits) == 0 {
		return append(to[:0], ""), nil
	}
	r := &blockReader{bits: bits}
	different := make([]string, r.count())
	for i := range different {
		different[i] = r.word()
	}
	if len(different) == 1 {
		rows = 0
		to = append(to[:0], different[0])
	} else {
		to = slices.Grow(to[:0], rows)[:rows]
	}
	for i := range rows {
		n := r.uvarint()
		if n >= uint64(len(different)) {
			return to, errBlock
		}
		to[i] = different[n]
	}
	if r.bad || len(r.bits) > 0 {
		return to, errBlock
	}
	return to, nil
}
