package verdict_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/testing/traffic"
)

const page = "../../../../docs/explanation/verdicts.md"

// What docs/explanation/verdicts.md says of how often verdicts are right is what comes of the
// files that were held out:
//
//	go generate ./internal/insight/analytics/verdict
func TestDocs(t *testing.T) {
	whole(t)
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "<!-- generated: go generate ./internal/insight/analytics/verdict -->\n")
	_, after, end := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !end {
		t.Fatalf("%s has no place for what is generated", page)
	}
	want := before + "<!-- generated: go generate ./internal/insight/analytics/verdict -->\n" + told(heldResults()(t)) + "<!-- end -->\n" + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(data) {
		t.Errorf("%s is not what the files say: run go generate ./internal/insight/analytics/verdict", page)
	}
}

// told tells what became of the files that were held out.
func told(levels [][]judged) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d files that were held out, with all that a gateway knows:\n\n%s\n", heldFiles, matrixOf(levels[0]))
	b.WriteString("The same with less known:\n\n| known | legitimate | shared | runaway | abusive | all |\n|---|---|---|---|---|---|\n")
	for i, words := range []string{"counts, what clients request, responses", "counts, what clients request", "only counts"} {
		m := matrixOf(levels[i])
		fmt.Fprintf(&b, "| %s |", words)
		for _, l := range labels {
			right, of := m.right(l)
			fmt.Fprintf(&b, " %s |", percentOf(right, of))
		}
		right, of := m.all()
		fmt.Fprintf(&b, " %s |\n", percentOf(right, of))
	}
	b.WriteString("\nWhat confidence was worth, all three together:\n\n| confidence | verdicts | right |\n|---|---|---|\n")
	for _, word := range []verdict.Certainty{verdict.High, verdict.Medium, verdict.Low} {
		right, of := 0, 0
		for _, level := range levels {
			for _, j := range level {
				if j.Certainty == word {
					of++
					if j.right() {
						right++
					}
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", word, of, percentOf(right, of))
	}
	b.WriteString("\nBy what the clients were, with everything known:\n\n| actor | is | clients | right |\n|---|---|---|---|\n")
	type actor struct {
		name  string
		label traffic.Label
	}
	counts := map[actor][2]int{}
	for _, j := range levels[0] {
		a := actor{j.Who.Actor, j.Who.Label}
		n := counts[a]
		n[1]++
		if j.Class == want(j.Who.Label) {
			n[0]++
		}
		counts[a] = n
	}
	actors := slices.SortedFunc(maps.Keys(counts), func(a, b actor) int {
		if a.label != b.label {
			return slices.Index(labels, a.label) - slices.Index(labels, b.label)
		}
		return strings.Compare(a.name, b.name)
	})
	for _, a := range actors {
		n := counts[a]
		fmt.Fprintf(&b, "| %s | %s | %d | %s |\n", strings.ReplaceAll(a.name, "_", " "), a.label, n[1], percentOf(n[0], n[1]))
	}
	return b.String()
}

func percentOf(right, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(right)/float64(of))
}

// Confidence is worth what it says on files that were held out: in each tenth, the
// share that was right lies near the mean confidence.
func TestConfidence(t *testing.T) {
	whole(t)
	var sum [10]float64
	var right, of [10]int
	for _, level := range heldResults()(t) {
		for _, j := range level {
			if j.Class == verdict.Undecided {
				continue
			}
			i := int(j.Confidence * 10)
			sum[i] += j.Confidence
			of[i]++
			if j.right() {
				right[i]++
			}
		}
	}
	told := 0
	for i := range of {
		if of[i] < 30 { // chance
			continue
		}
		told++
		if mean, share := sum[i]/float64(of[i]), float64(right[i])/float64(of[i]); math.Abs(mean-share) > 0.15 {
			t.Errorf("of %d verdicts with a confidence of %.2f in the mean %.2f are right", of[i], mean, share)
		}
	}
	if told < 3 || of[9] < 300 {
		t.Errorf("verdicts by tenths of confidence: %v", of)
	}
}
