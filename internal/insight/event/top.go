package event

import (
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/sketch"
)

// Heavy is a client that a limit refused often.
type Heavy struct {
	LimitRef
	// Key is the client as records tell it.
	Key string `json:"key"`
	// Refused is how many decisions refused it, and at most Error too many.
	Refused int64 `json:"refused"`
	Error   int64 `json:"error,omitempty"`
}

// heavies is how many clients are followed.
const heavies = 1000

// top follows the clients that are refused most. Safe for concurrent use.
type top struct {
	mu     sync.Mutex
	counts *sketch.SpaceSaving[string]
	// who tells of each client that is followed; others are let go of now and
	// then.
	who map[string]Heavy
}

func (t *top) init() (err error) {
	t.who = make(map[string]Heavy)
	t.counts, err = sketch.NewSpaceSaving[string](heavies)
	return err
}

// addRecord counts what a record tells.
func (t *top) addRecord(r *Record) {
	if r.Outcome != weir.Refused.String() || r.Merged {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := r.Domain + "\x1f" + r.Rule + "\x1f" + r.Limit + "\x1f" + r.Key
	t.counts.AddUnits(id, r.Count)
	t.who[id] = Heavy{LimitRef: r.LimitRef, Key: r.Key}
	if len(t.who) < 4*heavies {
		return
	}
	kept := make(map[string]Heavy, heavies)
	for _, c := range t.counts.TopCounters(heavies) {
		kept[c.Key] = t.who[c.Key]
	}
	t.who = kept
}

func (t *top) listHeaviest(n int) []Heavy {
	t.mu.Lock()
	defer t.mu.Unlock()
	counters := t.counts.TopCounters(n)
	out := make([]Heavy, len(counters))
	for i, c := range counters {
		out[i] = t.who[c.Key]
		out[i].Refused, out[i].Error = c.Count, c.Error
	}
	return out
}
