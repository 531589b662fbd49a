package resp

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

const docsPage = "../../../docs/reference/redis-protocol.md"

// TestDocsNameEveryCommand: docs/reference/redis-protocol.md has all commands, and no
// others.
func TestDocsNameEveryCommand(t *testing.T) {
	page, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "All commands:")
	table, _, _ = strings.Cut(table, "Everything else")
	if !ok {
		t.Fatal("there is no list")
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z.]+)`").FindAllStringSubmatch(table, -1) {
		named[m[1]] = true
	}
	for _, name := range newBench(t, Options{}).commandNames() {
		if !named[name] {
			t.Errorf("%s is not named", name)
		}
		delete(named, name)
	}
	if len(named) > 0 {
		t.Errorf("there are no %v", named)
	}
	for _, bound := range []string{
		fmt.Sprintf("| an argument | %d KiB | %d KiB |", maxEarlyBulk>>10, maxBulk>>10),
		fmt.Sprintf("| arguments of a command | %d | 1,%03d |", maxEarlyArgs, maxArgs-1000),
		fmt.Sprintf("| a command | %d KiB | %d KiB |", maxEarlyCommand>>10, maxCommand>>10),
		fmt.Sprintf("| all of them | %d MiB | |", maxEarly>>20),
		fmt.Sprintf("at most %d MiB", maxLarge>>20), fmt.Sprintf("up to %d of them", MaxParallel), "one of " + fmt.Sprint(databases) + " databases",
	} {
		if !strings.Contains(string(page), bound) {
			t.Errorf("the page does not say %q", bound)
		}
	}
}

// TestDocsExamples runs each redis-cli of the page and compares what it prints.
func TestDocsExamples(t *testing.T) {
	bin := servertest.Binary(t, "redis-cli")
	page, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	rule := weir.Limits{{Name: "5/minute by client_id using fixed_window", Algorithm: algorithm.FixedWindow, Count: 5, Period: time.Minute}}
	b := newBench(t, Options{})
	l, err := weir.New(b.store, rule, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(newBench(t, Options{Limiter: l}).listen(t))
	ran := 0
	var want []string
	var got string
	check := func() {
		if text := strings.Join(want, "\n"); got != text {
			t.Errorf("got\n%s\nthe page has\n%s", got, text)
		}
		want, got = nil, ""
	}
	for line := range strings.Lines(string(page) + "\n") {
		line = strings.TrimSuffix(line, "\n")
		text, example := strings.CutPrefix(line, "    ")
		if args, ok := strings.CutPrefix(text, "$ redis-cli -p 6380 "); example && ok {
			check()
			ran++
			all := append([]string{"-p", port}, strings.Fields(args)...)
			got = strings.TrimSuffix(run(t, "", exec.CommandContext(within(t), bin, all...)), "\n")
			continue
		}
		if example && got != "" {
			want = append(want, text)
			continue
		}
		check()
	}
	if ran < 2 {
		t.Errorf("%d examples ran", ran)
	}
}
