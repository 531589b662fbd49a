package sharedtest

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/storetest"
)

// One node that decides strictly and remembers no refusal is a store like any other.
func testConformance(t *testing.T, newNode New) {
	storetest.Run(t, openStrict(newNode, false), storetest.Options{})
}

// The same over a store that ends each call by itself.
func testPromptConformance(t *testing.T, newNode New) {
	storetest.Run(t, openStrict(newNode, true), storetest.Options{Brief: true})
}

// openStrict opens nodes over memory stores.
func openStrict(newNode New, prompt bool) storetest.Open {
	return func(t *testing.T, now func() int64) weir.Store {
		t.Helper()
		shared := memory.New(memory.Options{MaxBytes: 64 << 20, Now: now})
		local := memory.New(memory.Options{MaxBytes: 64 << 20, Now: now})
		s, err := newNode(shared, Options{Local: local, Now: now, Timeout: 10 * time.Second, RefusalLife: -1, Mode: params.ConsistencyStrict, Prompt: prompt})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, s, shared, local)
		return s
	}
}
