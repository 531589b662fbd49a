package shape

import (
	"testing"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
)

func TestWorkCountsRefusalsAndUsesTheKeys(t *testing.T) {
	keys := load.Zipf(1000)
	for _, sh := range All {
		seen := make(map[string]int)
		allow := func(key string) bool { seen[key]++; return len(seen) < 500 }
		work := sh.Work(allow, keys)
		r := measure.Run(1, 20_000, work)
		if sh.Zipf && (len(seen) < 900 || r.Refused == 0) {
			t.Errorf("%s: %d of 1,000 keys seen, %d refused", sh.Name, len(seen), r.Refused)
		}
		if !sh.Zipf && (len(seen) != 1 || r.Refused != 0) {
			t.Errorf("%s: %d keys seen, %d refused", sh.Name, len(seen), r.Refused)
		}
	}
}

func TestFillReportsARefusal(t *testing.T) {
	keys := load.Zipf(1000)
	for _, sh := range All {
		if err := sh.Fill(func(string) bool { return false }, keys); err == nil {
			t.Errorf("%s: a refused first request was not reported", sh.Name)
		}
	}
}
