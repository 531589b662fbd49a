package history_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/history"
)

const good = `# Ten a second, five at once.
limit token_bucket 10 per 1s burst 5
0s     take 5 as first   -> allow left 0
0s     take 1            -> deny left 0 retry 100ms
100ms  refund 2 of first -> allow left 3  # two were not used

key other
100ms  peek 6            -> deny left 5 retry never
`

func TestReplayAgreesAndRewritesToItself(t *testing.T) {
	h, err := history.Parse("good.txt", strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := h.Replay(history.Cells())
	if err != nil {
		t.Fatal(err)
	}
	if wrong := h.Differences(answers); len(wrong) > 0 {
		t.Errorf("wrong answers:\n%s", strings.Join(wrong, "\n"))
	}
	if got := h.With(answers); got != good {
		t.Errorf("rewritten to\n%s", got)
	}
}

func TestDifferencesNameLineAndWant(t *testing.T) {
	h, err := history.Parse("bad.txt", strings.NewReader(strings.Replace(good, "100ms\n100ms", "200ms\n100ms", 1)))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := h.Replay(history.Cells())
	if err != nil {
		t.Fatal(err)
	}
	wrong := h.Differences(answers)
	if len(wrong) != 1 || !strings.Contains(wrong[0], "bad.txt:4: ") || !strings.Contains(wrong[0], "want deny left 0 retry 200ms") {
		t.Errorf("got %q", wrong)
	}
	if wrong := h.Differences(nil); len(wrong) != 1 || !strings.Contains(wrong[0], "no answer") {
		t.Errorf("without answers: %q", wrong)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := history.Parse("x.txt", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that says %q", err, want)
		}
	}
	limit := "limit fixed_window 1 per 1s\n"
	f("0s take 1 -> allow", "x.txt:1: a decision before the first limit")
	f("limit fixed 1 per 1s", `unknown algorithm "fixed"`)
	f("limit fixed_window 1 each 1s", "a limit is:")
	f("limit fixed_window 0 per 1s", "count 0")
	f("limit fixed_window 1 per 1s bursts 3", "bursts 3: no such option")
	f("limit fixed_window 1 per 1s anchor now", "anchor now: no such value")
	f("limit fixed_window 1 per 24h calendar day in Nowhere/Else", "unknown time zone")
	f("limit approximate 5 per 1s width 3", "power of two")
	f("limit approximate 5 per 1s depth 99", "sketch depth 99")
	f("start yesterday", "start:")
	f("key", "one name")
	f(limit+"0s take 1", "x.txt:2: no answer")
	f(limit+"0s take -> allow", "a decision is:")
	f(limit+"0s take -1 -> allow", "not a number of units")
	f(limit+"0 takes 1 -> allow", "unknown verb")
	f(limit+"soon take 1 -> allow", `time "soon"`)
	f(limit+"0s refund 1 of lunch -> allow", `no spend was named "lunch"`)
	f(limit+"0s take 1 for lunch -> allow", `unknown word "for"`)
	f(strings.Repeat("#\n", history.MaxSize), "split it")
}

// TestEveryAlgorithmHasAHistory: a name in algorithm.All without a history would
// be an algorithm that nobody can read about.
func TestEveryAlgorithmHasAHistory(t *testing.T) {
	var text strings.Builder
	for _, pattern := range []string{"*.txt", "store/*.txt"} {
		names, err := filepath.Glob("../../testdata/histories/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString("\n")
			text.Write(data)
		}
	}
	for _, a := range algorithm.All {
		if !strings.Contains(text.String(), "\nlimit "+a.Name()+" ") {
			t.Errorf("testdata/histories has no history of %s", a.Name())
		}
	}
}

func TestReplayTellsThatNothingCanBeGivenBack(t *testing.T) {
	const text = "limit approximate 5 per 1s\n0s refund 1 -> no refund\n"
	h, err := history.Parse("x.txt", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := h.Replay(func(int64, *weir.Op) error { return weir.ErrRefund })
	if err != nil {
		t.Fatal(err)
	}
	if wrong := h.Differences(answers); len(wrong) > 0 || len(answers) != 1 {
		t.Errorf("answers %q: %q", answers, wrong)
	}
	if _, err := h.Replay(func(int64, *weir.Op) error { return weir.ErrClosed }); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("another error was told as %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("limit concurrency 2 per 1m\n0s take 1 as a -> allow left 1\n")
	f.Add("start 2026-03-29T00:00:00Z\nlimit fixed_window 2 per 24h calendar day in Europe/Berlin\n0s take 1 -> allow left 1 reset 23h\n")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := history.Parse("fuzz.txt", strings.NewReader(text))
		if err != nil || strings.Contains(text, "approximate") {
			return
		}
		answers, err := h.Replay(history.Cells())
		if err != nil {
			t.Fatal(err)
		}
		// What was written back reads the same.
		again, err := history.Parse("fuzz.txt", strings.NewReader(h.With(answers)))
		if err != nil {
			t.Fatalf("rewritten: %v", err)
		}
		if wrong := again.Differences(answers); len(wrong) > 0 {
			t.Errorf("rewritten: %q", wrong)
		}
	})
}
