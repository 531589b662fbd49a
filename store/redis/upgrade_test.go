package redis

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// recordedAt is when the rows of testdata/rows-0.1.json were written, by the store of version
// 0.1, which then had so many units left.
const recordedAt = 1_700_000_040_000_000

type recordedRow struct {
	Algorithm          string
	Count, Burst, Left int64
	Period, Name, Type string
	Data               [][]byte
}

func recordedRows(t *testing.T) (rows []recordedRow) {
	b, err := os.ReadFile("testdata/rows-0.1.json")
	if err == nil {
		err = json.Unmarshal(b, &rows)
	}
	if err != nil || len(rows) < 20 {
		t.Fatal(len(rows), err)
	}
	return rows
}

// limit returns the limit of the row, changed.
func (x *recordedRow) limit(t *testing.T, change func(*weir.Limit)) *weir.Limit {
	period, err := time.ParseDuration(x.Period)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(algorithm.All, func(a weir.Algorithm) bool { return a.Name() == x.Algorithm })
	l := &weir.Limit{Name: "recorded", Algorithm: algorithm.All[i], Count: x.Count, Burst: x.Burst, Period: period}
	if change != nil {
		change(l)
	}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// isForgotten reports whether docs/how-to/upgrade.md says that the key starts from zero.
func (x *recordedRow) isForgotten() bool {
	switch x.Algorithm {
	case "token_bucket", "leaky_bucket":
		return x.Count == 10_001 || x.Count == 7919
	case "sliding_window":
		return x.Count < 21 || x.Count > 16_384
	case "sliding_counter":
		return x.Count > 262_143 && x.Period == "1m0s"
	}
	return false
}

// What was spent by version 0.1 is spent, and stays so when the limit is changed afterwards.
func TestRowsOfVersion01(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	for _, x := range recordedRows(t) {
		now := int64(recordedAt)
		s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
		key := strings.TrimPrefix(strings.Split(x.Name, "}")[0], "{")
		left := func(l *weir.Limit, cost int64) int64 {
			t.Helper()
			ops := []weir.Op{{Key: key, Limit: l, Cost: cost}}
			if l.Algorithm == algorithm.Concurrency {
				ops[0].ID = 99
			}
			if err := s.Take(t.Context(), ops); err != nil || !ops[0].Decision.Allowed() {
				t.Fatal(ops[0], err)
			}
			return ops[0].Decision.Remaining
		}
		l := x.limit(t, nil)
		name, err := s.Name(key, l)
		if err != nil {
			t.Fatal(err)
		}
		if forgotten := !strings.HasSuffix(name, x.Name); forgotten != x.isForgotten() {
			t.Errorf("%s of %d: the row is named %s, in version 0.1 %s", x.Algorithm, x.Count, name, x.Name)
		} else if forgotten {
			continue
		}
		write := map[string][]string{"string": {"SET", name}, "list": {"RPUSH", name}, "zset": {"ZADD", name}}[x.Type]
		for i := range x.Data {
			if x.Type == "zset" {
				i ^= 1 // the score comes first
			}
			write = append(write, string(x.Data[i]))
		}
		r.Do(t, write...)
		if got := left(l, 0); got != x.Left {
			t.Errorf("%s of %d: %d are left, want %d", x.Algorithm, x.Count, got, x.Left)
		}
		if x.Left == 0 {
			continue
		}
		if got := left(l, 1); got != x.Left-1 {
			t.Errorf("%s of %d: %d are left after one more, want %d", x.Algorithm, x.Count, got, x.Left-1)
		}
		raised := x.limit(t, func(l *weir.Limit) { l.Count, l.Burst = 10*l.Count, 10*l.Burst })
		if got, want := left(raised, 0), x.Left-1+raised.Burst-l.Burst; got < want-1 || got > want {
			t.Errorf("%s of %d, raised to ten times as much: %d are left, want %d", x.Algorithm, x.Count, got, want)
		}
	}
}
