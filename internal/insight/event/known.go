package event

import (
	"sync"

	"github.com/weirlimit/weir"
)

// Known is a key under a limit that was told of.
type Known struct {
	Limit *weir.Limit
	Key   string
}

// maxKnown is how many keys are remembered in a generation.
const maxKnown = 1 << 14

// knownKeys remember which keys the names of records stand for, of those that were told
// of last: between maxKnown and twice as many.
type knownKeys struct {
	mu   sync.Mutex
	keys [2]map[knownAs]Known // a generation and the one before it
}

type knownAs struct {
	name     string
	counters *weir.Counters
}

func (k *knownKeys) rememberKey(name string, s *sighting) {
	if s.cut {
		return // what is kept of the key is not all of it
	}
	at := knownAs{name, s.limit.Counters()}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.keys[0][at]; ok {
		return
	}
	if k.keys[0] == nil || len(k.keys[0]) == maxKnown {
		k.keys[0], k.keys[1] = map[knownAs]Known{}, k.keys[0]
	}
	k.keys[0][at] = Known{s.limit, string(s.key())}
}

// rememberName returns the name of a key in records, and remembers what it stands for.
func (o *Observer) rememberName(s *sighting) string {
	name := o.names.nameKey(s)
	o.known.rememberKey(name, s)
	return name
}

// Known returns the keys that a name in records stands for, each with a limit under
// which it was told of: those of the 16,384 keys that this node told of last, and of
// some before.
func (o *Observer) Known(name string) []Known {
	o.known.mu.Lock()
	defer o.known.mu.Unlock()
	var out []Known
	for i, keys := range o.known.keys {
		for at, k := range keys {
			if at.name != name {
				continue
			}
			if _, again := o.known.keys[0][at]; i == 0 || !again {
				out = append(out, k)
			}
		}
	}
	return out
}
