package sketch

// The parts of a window, and where a key lies, for tests.

type Bloom = bloom

func NewBloom(size int64, hashes int) (*Bloom, error) {
	if err := checkBloom(size, hashes); err != nil {
		return nil, err
	}
	b := makeBloom(size, hashes)
	return &b, nil
}

func (b *bloom) Has(h uint64) bool { return b.contains(newProbe(h)) }

func (b *bloom) Add(h uint64) bool { return b.insertKey(newProbe(h)) }

func (b *bloom) Reset() { b.reset() }

func (b *bloom) Bytes() int64 { return b.bytes() }

func (b *bloom) Fill() float64 { return b.fillShare() }

func (b *bloom) FalsePositives() float64 { return b.falsePositives() }

var (
	BloomSize    = bloomSize
	CountMinSize = countMinSize
)

func (c *CountMin) Raise(h, v uint64) uint64 { return c.raiseCounters(newProbe(h), v) }

// Index returns which shard holds the key with hash h.
func (w *Window) Index(h uint64) int { return int(spread(h) >> w.shift) }

func (w *Window) Shards() int { return len(w.shards) }

func (t *TAT) Shards() int { return len(t.shards) }
