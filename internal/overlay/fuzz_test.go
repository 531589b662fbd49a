package overlay_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
)

// Whatever stands in the store, a node decides on, and what it takes it can write
// again.
func FuzzDocument(f *testing.F) {
	for _, text := range hostile() {
		if len(text) < 4096 {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte(`{"format":1,"entries":[{"kind":"ban","domain":"api","entries":[{"key":"user","value":"bob"}],"limit":"permin","scope":"api/user","key":"bob","algorithm":"token_bucket","until_us":9000000000000000,"made_us":1,"by":"x"}]}`))
	f.Add([]byte(`{"format":1,"entries":[{"kind":"override","domain":"api","entries":[{"key":"user","value":"bob"}],"limit":"permin","scope":"api/user","key":"bob","algorithm":"concurrency","count":5,"period_us":60000000,"made_us":1,"by":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := overlay.DecodeEntries(data)
		for i := range entries {
			_ = entries[i].Rate()
		}
		if err != nil {
			return
		}
		store := clocked.New(t)
		if _, err := store.SwapDocument(t.Context(), "overlay", 0, documents.Document{Data: data}); err != nil {
			t.Fatal(err)
		}
		n := newNode(t, store, store, store.Now.Load)
		d := n.take(t, "bob", 1)
		if d.Limit == nil {
			t.Errorf("no limit decided: %+v", d)
		}
		if err := n.Keys.Override(t.Context(), n.of("ann"), overlay.Numbers{Count: 7}, 0, overlay.Author{By: "fuzz"}); err != nil && len(entries) < overlay.MaxEntries {
			t.Errorf("%q: %v", data, err)
		}
	})
}
