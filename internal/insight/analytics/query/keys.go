package query

import "github.com/weirlimit/weir/internal/insight/analytics/rows"

// keys are sketches of how many keys there were.
type keys struct{ limited, sampled *rows.Sketch }

func newKeys() *keys { return &keys{rows.NewSketch(), rows.NewSketch()} }

func (k *keys) mergeSketch(kind string, packed []byte) error {
	if kind == rows.SketchSampled {
		return k.sampled.MergeRow(packed)
	}
	return k.limited.MergeRow(packed)
}

// CountKeys returns how many keys were limited and how many there were: the sampled
// ones times how many each stands for, at least those that were limited. Where none was
// sampled, how many there were is not known, and seen is zero.
func (k *keys) CountKeys() (limited, seen int64, known bool) {
	limited = k.limited.CountKeys()
	if k.sampled.Every == 0 {
		return limited, 0, false
	}
	return limited, max(limited, k.sampled.CountKeys()*k.sampled.Every), true
}
