package tier_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/storetest"
	"github.com/weirlimit/weir/store/tier"
)

// open returns a tier over a memory store, which decides as that does alone.
func open(t *testing.T, now func() int64) weir.Store { return openWith(t, now, false) }

func openWith(t *testing.T, now func() int64, prompt bool) weir.Store {
	t.Helper()
	shared := memory.New(memory.Options{MaxBytes: 64 << 20, Now: now})
	local := memory.New(memory.Options{MaxBytes: 64 << 20, Now: now})
	s, err := tier.New(shared, tier.Options{Local: local, Now: now, Timeout: 10 * time.Second, RefusalLife: -1, Mode: weir.ConsistencyStrict, Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s, shared, local)
	return s
}

// closeLater closes stores when the test is over, in their order.
func closeLater(t testing.TB, stores ...weir.Store) {
	t.Helper()
	t.Cleanup(func() {
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestConformance(t *testing.T) { storetest.Run(t, open) }

// The same over a store that is relied on to answer in time.
func TestConformancePrompt(t *testing.T) {
	storetest.RunBriefly(t, func(t *testing.T, now func() int64) weir.Store { return openWith(t, now, true) })
}
