package limits_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// Whatever the rules and the request, rules with nothing to choose are matched as if they
// had, and as Explain tells.
func TestSinglesMatchAsOthers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 26))
	single, chosen := 0, 0 // branches, ops
	own := weir.PerHour(3, algorithm.FixedWindow)
	if err := own.Compile(); err != nil {
		t.Fatal(err)
	}
	for range 600 {
		text := "domain: d\ndescriptors:\n" + randomRules(rnd, "  ", 3)
		set, err := rules.Parse("random.yaml", []byte(text), rules.Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		again := func(r *weir.Request) *weir.Request {
			return &weir.Request{Domain: r.Domain, Descriptors: r.Descriptors, Verb: r.Verb, Cost: r.Cost}
		}
		var requests []*weir.Request
		var got [][]weir.Op
		for range 30 {
			r := randomRequest(rnd, own)
			requests, got = append(requests, r), append(got, set.Match(nil, r))
			if traced := limits.MatchTraced(set, again(r)); !sameOps(got[len(got)-1], traced) {
				t.Fatalf("%+v\nmeets %+v,\nexplained %+v, under\n%s", r.Descriptors, got[len(got)-1], traced, text)
			}
		}
		single += limits.Unmark(set)
		for i, r := range requests {
			want := set.Match(nil, again(r))
			if !sameOps(got[i], want) {
				t.Fatalf("%+v\nmeets %+v,\nelse %+v, under\n%s", r.Descriptors, got[i], want, text)
			}
			chosen += len(want)
		}
	}
	if single < 300 || chosen < 1000 {
		t.Errorf("%d branches without choice, %d ops: too few to tell", single, chosen)
	}
}

func sameOps(a, b []weir.Op) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// randomRules writes descriptors of few keys, most of them plain.
func randomRules(rnd *rand.Rand, indent string, depth int) string {
	var b strings.Builder
	for _, key := range []string{"a", "b", "c"}[:1+rnd.IntN(3)] {
		values := [][]string{{"", "1"}, {"2*", ""}, {"1"}, {""}, {""}, {""}, {""}, {""}, {""}}[rnd.IntN(9)]
		for _, value := range values {
			fmt.Fprintf(&b, "%s- key: %s\n", indent, key)
			line := func(text string) { fmt.Fprintf(&b, "%s  %s\n", indent, text) }
			if value != "" {
				line(`value: "` + value + `"`)
			}
			switch rnd.IntN(4) {
			case 0:
				line("limits: [{limit: 5/minute, name: x}, {limit: 50/hour, name: y, cost: 3, priority: 1}]")
			case 1:
				line("limit: 0")
			default:
				line("limit: 5/minute")
			}
			switch rnd.IntN(24) {
			case 0:
				line(`deny: ["1"]`)
			case 1:
				line(`allow: ["2"]`)
			case 2:
				line(`tiers: {by: b, limits: {"1": 7/minute}}`)
			case 3:
				line(`overrides: {"2*": 9/minute}`)
			}
			if depth > 1 && rnd.IntN(2) == 0 {
				line("descriptors:")
				b.WriteString(randomRules(rnd, indent+"    ", depth-1))
			}
		}
	}
	return b.String()
}

func randomRequest(rnd *rand.Rand, own *weir.Limit) *weir.Request {
	r := &weir.Request{Domain: "d", Cost: rnd.Int64N(3)}
	if rnd.IntN(8) == 0 {
		r.Verb = weir.Peek
	}
	for range 1 + rnd.IntN(3) {
		d := weir.Descriptor{Peek: rnd.IntN(8) == 0, Cost: rnd.Int64N(2)}
		if rnd.IntN(8) == 0 {
			d.Override = own
		}
		for range rnd.IntN(4) {
			d.Entries = append(d.Entries, weir.Entry{Key: string(rune('a' + rnd.IntN(4))), Value: fmt.Sprint(rnd.IntN(25))})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}
