// Command compare measures Weir beside other Go rate limiters, in one run, and
// prints Markdown tables. With -write they go into docs/reference/generated/benchmarks.md.
//
//	go run ./cmd/compare                     everything, in under twenty-five minutes
//	go run ./cmd/compare -quick              everything in a short form
//	go run ./cmd/compare -only decisions     one part
//
// Every limiter runs in a process of its own; rounds of all of them alternate,
// so that a disturbance of the machine hits all alike. Figures are the median
// of the rounds, with the smallest and the largest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/report"
)

// settings say how much to measure.
type settings struct {
	rounds  int           // of every figure of time
	round   time.Duration // how long one takes
	keys    int           // of the Zipf shapes
	sizes   []int         // keys held in the memory part
	each    time.Duration // the longest that one limiter may fill its keys
	http    time.Duration // how long wrk runs in a round
	open    time.Duration // how long a turn of the open loop takes
	paired  int           // rounds of such turns at most
	shrink  time.Duration // the longest to wait for a table to shrink
	crowd   int           // keys of the peak before it shrinks
	remote  int           // keys in Redis
	command string        // how to repeat it
}

var full = settings{
	rounds: 7, round: 250 * time.Millisecond, keys: 1_000_000,
	sizes: []int{1_000_000, 10_000_000}, each: 80 * time.Second,
	http: 2 * time.Second, open: 500 * time.Millisecond, paired: 6, shrink: 120 * time.Second, crowd: 10_000_000, remote: 100_000,
	command: "cd lab/bench && go run ./cmd/compare -write",
}

var quick = settings{
	rounds: 3, round: 30 * time.Millisecond, keys: 100_000,
	sizes: []int{100_000}, each: 20 * time.Second,
	http: time.Second, open: 100 * time.Millisecond, paired: 3, shrink: 20 * time.Second, crowd: 200_000, remote: 10_000,
	command: "cd lab/bench && go run ./cmd/compare -quick",
}

// errTime ends what is under way when -limit is over.
var errTime = errors.New("the time for everything is over, see -limit")

// part is one comparison and its section of the document.
type part struct {
	name string
	run  func(ctx context.Context, s settings) (string, error)
}

var parts = []part{
	{"decisions", compareDecisions},
	{"rules", compareRules},
	{"observer", compareObserver},
	{"http", compareHTTP},
	{"gateway", compareGateway},
	{"middleware", compareMiddleware},
	{"redis", compareRedis},
	{"resp", compareRESP},
	{"grpc", compareGRPC},
	{"shrink", compareShrink},
	// Last, as it can be cut short where the time ends.
	{"memory", compareMemory},
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		exit(runWorker(os.Args[2], os.Args[3:]))
	}
	exit(compare())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// compare runs the parts that were asked for. A part that fails does not stop
// the others.
func compare() error {
	short := flag.Bool("quick", false, "a short form of everything, to see that it works; its figures mean little")
	write := flag.Bool("write", false, "write the tables into the document")
	document := flag.String("document", "../../docs/reference/generated/benchmarks.md", "`file` that -write changes")
	only := flag.String("only", "", "comma-separated `parts` to run: "+partNames())
	limit := flag.Duration("limit", 25*time.Minute, "longest `time` for everything; what does not fit is left out and named")
	flag.Parse()
	wanted, err := choose(*only)
	if err != nil {
		return err
	}
	s := full
	if *short {
		s = quick
		if *write {
			return errors.New("-quick measures too little to be written: leave -write or -quick out")
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, errTime)
	defer cancel()

	if busy := measure.Busy(); busy != "" {
		progress("%s", busy)
	}
	var failed []error
	for _, p := range wanted {
		began := time.Now()
		text, err := p.run(ctx, s)
		if err != nil && context.Cause(ctx) == errTime {
			err = errTime // what it says itself is of the part that was cut off
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		command := s.command
		if *only != "" {
			command += " -only " + p.name
		}
		text += "\n" + report.Stamp(time.Now(), measure.MachineMemory(), command) + "\n"
		fmt.Printf("## %s\n\n%s\n", p.name, text)
		fmt.Fprintf(os.Stderr, "%s took %s\n", p.name, time.Since(began).Round(time.Second))
		if *write {
			failed = append(failed, report.WriteSection(*document, p.name, text))
		}
	}
	return errors.Join(failed...)
}

func partNames() string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// choose returns the parts named in a comma-separated list, all for "".
func choose(only string) ([]part, error) {
	if only == "" {
		return parts, nil
	}
	var wanted []part
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no part %q: there are %s", name, partNames())
		}
		wanted = append(wanted, parts[i])
	}
	return wanted, nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
