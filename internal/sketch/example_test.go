package sketch_test

import (
	"fmt"
	"hash/maphash"

	"github.com/weirlimit/weir/internal/sketch"
)

// Keys are hashed with a seed that no client knows.
var seed = maphash.MakeSeed()

func key(name string) uint64 { return maphash.String(seed, name) }

func ExampleWindow() {
	const minute = 60 * 1_000_000 // µs
	w, err := sketch.NewWindow(sketch.WindowOptions{
		Period: minute,
		Limit:  100,
		Units:  50_000, // of all clients in a minute
		Keys:   20_000, // clients in a minute
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := int64(1_700_000_000_000_000)
	fmt.Println(w.Spend(key("alice"), now, 99, 100).Remaining)
	d := w.Spend(key("alice"), now, 2, 100)
	fmt.Println(d.Allowed, d.Remaining)
	fmt.Println(w.Spend(key("alice"), now+d.RetryAfter, 2, 100).Allowed)
	// Output:
	// 1
	// false 1
	// true
}

func ExampleWindow_Stats() {
	w, err := sketch.NewWindow(sketch.WindowOptions{Period: 1_000_000, SampleEvery: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 100 {
		w.Spend(key(fmt.Sprint("client", i)), 0, 2, 10)
	}
	st := w.Stats(0)
	fmt.Println(st.Units, st.Sampled, st.MaxError)
	// Output: 200 100 0
}

// A token bucket of 5 at 10 a second, with one stamp of state.
func ExampleTAT() {
	t, err := sketch.NewTAT(4, 1<<18)
	if err != nil {
		fmt.Println(err)
		return
	}
	const interval, burst = 100_000, 5 // µs, units
	h, now := key("alice"), int64(1_700_000_000_000_000)
	s := t.Shard(t.ShardIndex(h))
	for range 6 {
		s.Lock()
		tat := max(s.Estimate(h), now) + interval
		allowed := tat-now <= burst*interval
		if allowed {
			s.RaiseStamps(h, tat)
		}
		s.Unlock()
		fmt.Print(allowed, " ")
	}
	// Output: true true true true true false
}

func ExampleSpaceSaving() {
	top, err := sketch.NewSpaceSaving[string](100)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 1000 {
		top.AddUnits(fmt.Sprint("client-", i%300), 1)
		top.AddUnits("mallory", 5)
	}
	heaviest := top.TopCounters(1)[0]
	fmt.Println(heaviest.Key, heaviest.Count-heaviest.Error)
	// Output: mallory 5000
}
