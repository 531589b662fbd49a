package count

import (
	"fmt"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// blockSize is how many numbers of a source are kept together as bits.
const blockSize = 4096

// block is a part of the numbers of a source.
type block struct {
	source int64
	number int64
}

func (b block) keyArgs(*numbers) []any { return []any{b.source, b.number} }

// findUnseen returns the events that were not counted before, and notes that they are.
// Requires: no other transaction counts events of these sources.
func findUnseen(in *rows.Statements, batch []event.Event, sources map[string]int64, now int64) (fresh []*event.Event) {
	bits := map[block][]byte{}
	at := func(e *event.Event) block { return block{sources[e.Source], int64(e.Sequence / blockSize)} }
	for i := range batch {
		bits[at(&batch[i])] = nil
	}
	blocks, args := sortRows(bits, nil)
	for i := range args {
		args[i] = append(args[i], now, []byte{})
	}
	in.WriteRows(rows.SeenTable, rows.SeenTable.UpsertStatement("bits", rows.Greatest.Column("last"), rows.Stays.Column("bits")), args, func(i int, r rows.Row) (err error) {
		bits[blocks[i]], err = unpackBits(r.Bytes(0))
		return err
	})
	if in.HasFailed() {
		return nil // what is known of the events is not
	}
	changed := map[block]bool{}
	for i := range batch {
		e := &batch[i]
		b, n := bits[at(e)], e.Sequence%blockSize
		if b[n/8]&(1<<(n%8)) != 0 {
			continue
		}
		b[n/8] |= 1 << (n % 8)
		changed[at(e)] = true
		fresh = append(fresh, e)
	}
	args = args[:0]
	for _, b := range blocks {
		if changed[b] {
			args = append(args, []any{packBits(bits[b]), b.source, b.number})
		}
	}
	in.WriteRows(rows.SeenTable, `UPDATE seen SET bits = $1 WHERE source_id = $2 AND block = $3`, args, nil)
	return fresh
}

// Bits are kept whole, or as one byte if all of them are set: most are.

func packBits(bits []byte) []byte {
	for _, b := range bits {
		if b != 0xff {
			return bits
		}
	}
	return []byte{0xff}
}

func unpackBits(packed []byte) ([]byte, error) {
	bits := make([]byte, blockSize/8)
	switch len(packed) {
	case 0:
	case 1:
		for i := range bits {
			bits[i] = 0xff
		}
	case len(bits):
		copy(bits, packed)
	default:
		return nil, fmt.Errorf("a block of %d bytes: the row was changed by others", len(packed))
	}
	return bits, nil
}
