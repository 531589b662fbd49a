package replay

import (
	"hash/maphash"

	"github.com/axiomhq/hyperloglog"
)

// exactly is how many keys are told apart before they are estimated.
const exactly = 10_000

// distinct counts different keys: exactly while they are few, and then by a
// HyperLogLog sketch, within 2 % in most cases.
type distinct struct {
	seen   map[uint64]struct{}
	sketch *hyperloglog.Sketch
}

// seed is the hash's, the same for all counts of a process.
var seed = maphash.MakeSeed()

func hashOf(key string) uint64 { return maphash.String(seed, key) }

func (d *distinct) addHash(hash uint64) {
	if d.sketch != nil {
		d.sketch.InsertHash(hash)
		return
	}
	if d.seen == nil {
		d.seen = make(map[uint64]struct{})
	}
	d.seen[hash] = struct{}{}
	if len(d.seen) > exactly {
		d.sketch = hyperloglog.New14()
		for h := range d.seen {
			d.sketch.InsertHash(h)
		}
		d.seen = nil
	}
}

// countSeen returns how many there were, and whether that is exact.
func (d *distinct) countSeen() (int64, bool) {
	if d.sketch != nil {
		return int64(d.sketch.Estimate()), false
	}
	return int64(len(d.seen)), true
}
