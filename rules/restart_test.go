package rules_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/clocked"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// ruleDraw writes rules files of one place.
type ruleDraw struct{ *rand.Rand }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (d ruleDraw) limit() string {
	count := pick(d.Rand, 1, 2, 10, 20, 21, 100, 7919, 16_384, 16_385, 70_000)
	switch d.IntN(14) {
	case 0:
		return "{unlimited: true}"
	case 1:
		return "{limit: 0/minute}"
	}
	algorithm := pick(d.Rand, "sliding_window", "sliding_window", "sliding_window", "fixed_window", "token_bucket", "leaky_bucket", "sliding_counter", "sliding_subwindows", "sliding_log", "approximate")
	if algorithm == "sliding_log" || algorithm == "approximate" {
		count = min(count, 100)
	}
	text := fmt.Sprintf("{limit: %d/%s, algorithm: %s", count, pick(d.Rand, "second", "minute", "minute", "minute", "hour"), algorithm)
	if algorithm == "approximate" {
		text += ", sketch: {width: 4096, depth: 4, bloom_bits: 16384, bloom_hashes: 3}"
	}
	if d.IntN(8) == 0 {
		text += ", on_change: reset"
	}
	return text + "}"
}

// limits writes one limit or a list of them, with or without names.
func (d ruleDraw) limits() string {
	if d.IntN(3) > 0 {
		return "limit: " + d.limit()
	}
	var all []string
	for i := range 1 + d.IntN(3) {
		l := strings.Replace(d.limit(), "{", fmt.Sprintf("{name: %s%d, ", pick(d.Rand, "n", "m"), i), 1)
		all = append(all, l)
	}
	return "limits: [" + strings.Join(all, ", ") + "]"
}

func (d ruleDraw) file() string {
	text := fmt.Sprintf("domain: d\ndescriptors:\n- key: path\n  value: /a*\n  share_threshold: %t\n  descriptors:\n  - key: user\n    %s\n", d.IntN(4) == 0, d.limits())
	if d.IntN(3) == 0 {
		text += "    overrides: {bob: " + d.limit() + "}\n"
	}
	if d.IntN(3) == 0 {
		text += "    tiers: {by: plan, limits: {pro: " + d.limit() + "}}\n"
	}
	return text
}

// TestFamilyReloadTellsWhatBeginsAnew: after a reload one line names the limits that
// count from zero though their rule was there, and no line is there where a key that
// was used up finds nothing again.
func TestFamilyReloadTellsWhatBeginsAnew(t *testing.T) {
	draw := ruleDraw{rand.New(rand.NewPCG(seeding.Of(t), 0))}
	rounds := 400
	if os.Getenv("WEIR_SOAK") == "1" {
		rounds = 2000
	}
	told, quiet := 0, 0
	for range rounds {
		file := filepath.Join(t.TempDir(), "r.yaml")
		first, second := draw.file(), draw.file()
		if draw.IntN(4) == 0 {
			// The same but for a number.
			second = regexp.MustCompile(`limit: \d+/`).ReplaceAllString(first, fmt.Sprintf("limit: %d/", pick(draw.Rand, 1, 20, 21, 100)))
		}
		write(t, file, first)
		var log bytes.Buffer
		live, err := rules.Open([]string{file}, rules.Options{Restarts: memory.Restarts, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatalf("%s\n%s", err, first)
		}
		clients := []string{"path=/a1 user=ann"}
		if strings.Contains(first+second, "overrides") {
			clients = append(clients, "path=/a1 user=bob")
		}
		if strings.Contains(first+second, "tiers") {
			clients = append(clients, "path=/a1 user=eve, plan=pro")
		}
		used, untouched := clocked.New(t), clocked.New(t)
		counted := make([]int, len(clients))
		for i, c := range clients {
			counted[i] = useUp(t, used, live, c)
		}
		write(t, file, second)
		log.Reset()
		if err := live.Reload(); err != nil {
			t.Fatalf("%s\n%s", err, second)
		}
		want := 0
		for i, c := range clients {
			fresh, going := 0, 0
			now, never := look(t, used, live, c), look(t, untouched, live, c)
			for at := range now {
				if now[at].Decision.Remaining == never[at].Decision.Remaining {
					fresh++
				} else {
					going++
				}
			}
			want += min(fresh, counted[i]-going)
		}
		got := 0
		if line := regexp.MustCompile(`level=WARN msg="limits count from zero.* limits=(\d+) which=`).FindStringSubmatch(log.String()); line != nil {
			if got, err = strconv.Atoi(line[1]); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Fatalf("%d limits are told to begin anew, %d do:\n%s\nthen\n%s\n%s", got, want, first, second, &log)
		}
		if n := strings.Count(log.String(), "limits count from zero"); n > 1 || len(log.String()) > 8000 {
			t.Fatalf("%d lines, %d bytes", n, log.Len())
		}
		if want > 0 {
			told++
		} else {
			quiet++
		}
	}
	if told < rounds/10 || quiet < rounds/10 {
		t.Errorf("of %d reloads %d began anything anew", rounds, told)
	}
}

// look returns the ops of a client, peeked at, without those that count nothing.
func look(t *testing.T, s *clocked.Store, live *rules.Live, client string) []weir.Op {
	t.Helper()
	r := request("d", strings.Split(client, ", ")...)
	r.Verb = weir.Peek
	var ops []weir.Op
	for _, o := range live.Match(nil, r) {
		if o.Role != weir.Deny {
			ops = append(ops, o)
		}
	}
	if err := s.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	return ops
}

// useUp spends all that the tightest limit of a client has, and returns how many
// limits counted it.
func useUp(t *testing.T, s *clocked.Store, live *rules.Live, client string) int {
	t.Helper()
	ops := look(t, s, live, client)
	if len(ops) == 0 {
		return 0
	}
	least := ops[0].Decision.Remaining
	for i := range ops {
		least = min(least, ops[i].Decision.Remaining)
	}
	for i := range ops {
		ops[i].Verb, ops[i].Cost = weir.Force, max(least, 1)
	}
	if err := s.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	return len(ops)
}

// TestRestartsAreNamed: the line says what was and what is, why, and what keeps the
// counts where anything does; of many limits it names a few.
func TestRestartsAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.yaml")
	var log bytes.Buffer
	write(t, file, "domain: d\n")
	live, err := rules.Open([]string{file}, rules.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	f := func(from, to string, want ...string) {
		t.Helper()
		for _, text := range []string{from, to} {
			log.Reset()
			write(t, file, "domain: d\ndescriptors:\n"+text)
			if err := live.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		_, line, _ := strings.Cut(log.String(), "limits count from zero")
		if (line == "") != (want == nil) {
			t.Errorf("%s to %s: %s", from, to, log.String())
		}
		for _, w := range want {
			if !strings.Contains(line, w) {
				t.Errorf("%s to %s: %q lacks %q", from, to, line, w)
			}
		}
	}
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 90/minute}")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 10/minute}")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 100/hour}")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 100/minute, algorithm: token_bucket}")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 100/hour, algorithm: sliding_log}", "limits=1", "d/ip: 100/hour sliding_log, was 100/minute sliding_window", "each algorithm",
		"each client may use the old and the new count within one period")
	f("- {key: ip, limit: 100/minute, algorithm: sliding_log}", "- {key: ip, limit: 100/hour, algorithm: sliding_log, max_log: 5000}", "different forms")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 10, algorithm: concurrency, ttl: 30s}", "each algorithm")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limits: [100/minute, 1000/hour]}", "limits=1", "under another name")
	f("- {key: ip, limits: [100/minute, 10/second]}", "- {key: ip, limits: [100/minute, 10/second, 1000/hour]}")
	f("- {key: ip, algorithm: fixed_window, limits: [100/minute, 500/hour]}", "- {key: ip, algorithm: fixed_window, limits: [100/minute, 500/day]}",
		"limits=1", "500/day fixed_window, was 500/hour", `name: \"hour\" keeps what was spent`)
	f("- {key: ip, algorithm: fixed_window, on_change: reset, limit: 100/minute}", "- {key: ip, algorithm: fixed_window, on_change: reset, limit: 90/minute}", "on_change: keep")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 100/minute, overrides: {acme: 10/hour}}")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 100/minute, overrides: {acme: {limit: 10/hour, algorithm: sliding_log}}}", "limits=1", "d/ip, for acme: 10/hour")
	f("- {key: ip, limit: 100/minute}", "- {key: other, limit: 10/minute}")
	f("- {key: ip, limit: 0}", "- {key: ip, limit: 10/minute}")
	f("- {key: ip, limit: 100/minute}", "- {key: ip, limit: 10/hour, algorithm: sliding_log, name: "+strings.Repeat("n", 100)+"}", "was 100/minute")
	var from, to strings.Builder
	for i := range 12 {
		fmt.Fprintf(&from, "- {key: k%d, limit: 100/minute}\n", i)
		fmt.Fprintf(&to, "- {key: k%d, limit: 10/hour, algorithm: sliding_log}\n", i)
	}
	f(from.String(), to.String(), "limits=12", "d/k0:", "d/k4:", "and 7 more")
	if strings.Contains(log.String(), "d/k5:") {
		t.Errorf("too many names: %s", &log)
	}
}
