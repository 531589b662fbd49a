// Command capacity measures what memory users take under every algorithm and how
// many decisions a processor makes for them, and prints Markdown tables. With
// -write they go into docs/reference/generated/capacity.md.
//
//	go run ./cmd/capacity           up to 100 million users, under eight minutes
//	go run ./cmd/capacity -quick    a short form, to see that it works
//
// Every number of users is measured in a process of its own. What does not fit
// into the memory that is free is computed from the largest number that did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/report"
	"github.com/weirlimit/weir/lab/bench/worker"
)

// settings say how much to measure.
type settings struct {
	question question
	// divisor makes every number of users smaller.
	divisor int
	command string
}

var (
	full = settings{question: question{Round: 400 * time.Millisecond, Rounds: 3}, divisor: 1,
		command: "cd lab/bench && go run ./cmd/capacity -write"}
	quick = settings{question: question{Round: 20 * time.Millisecond, Rounds: 2}, divisor: 100,
		command: "cd lab/bench && go run ./cmd/capacity -quick"}
)

func main() {
	// A worker must be told apart first: it would start workers of its own.
	var err error
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		err = serve(os.Args[2:])
	} else {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

func run() error {
	short := flag.Bool("quick", false, "a hundredth of the users, to see that it works; the figures mean little")
	write := flag.Bool("write", false, "write the tables into the document")
	document := flag.String("document", "../../docs/reference/generated/capacity.md", "`file` that -write changes")
	limit := flag.Duration("limit", 10*time.Minute, "longest `time` for everything; what does not fit is computed")
	flag.Parse()
	s := full
	if *short {
		s = quick
		if *write {
			return errors.New("-quick measures too little to be written: leave -write or -quick out")
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("the time limit of %s is over", *limit))
	defer cancel()
	if busy := measure.Busy(); busy != "" {
		progress("%s", busy)
	}
	measured, err := measureAll(ctx, s)
	if err != nil {
		return err
	}
	stamp := report.Stamp(time.Now(), measure.MachineMemory(), s.command) + "\n"
	var failed []error
	for name, text := range map[string]string{
		"memory": memoryTable(measured, s) + "\n" + stamp,
		"rate":   rateTable(measured) + "\n" + stamp,
	} {
		fmt.Printf("## %s\n\n%s\n", name, text)
		if *write {
			failed = append(failed, report.WriteSection(*document, name, text))
		}
	}
	return errors.Join(failed...)
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// measureAll returns the figures of every user by number of users, as in users.
// The large numbers come last: if time runs out, they are computed.
func measureAll(ctx context.Context, s settings) ([]map[int]figures, error) {
	measured := make([]map[int]figures, len(users))
	for i := range measured {
		measured[i] = make(map[int]figures)
	}
	for step := range len(all) {
		for i, u := range users {
			if step >= len(u.sizes) {
				continue
			}
			n := u.sizes[step] / s.divisor
			if !fits(measured[i], n) {
				progress("%s, %s users: not enough memory, will be computed", u.name(), people(n))
				continue
			}
			began := time.Now()
			f, err := ask(ctx, i, n, s.question)
			switch {
			case ctx.Err() != nil && step > 0 && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
				return measured, nil
			case err != nil && (step == 0 || ctx.Err() == nil):
				return nil, err
			case err != nil:
				progress("%s, %s users: %v; will be computed", u.name(), people(n), err)
				continue
			}
			measured[i][n] = f
			progress("%s, %s users: %.1f bytes each (%s)", u.name(), people(n), f.Heap, time.Since(began).Round(100*time.Millisecond))
		}
	}
	return measured, nil
}

// fits reports whether n users fit into the memory that is free, going by what
// fewer took.
func fits(measured map[int]figures, n int) bool {
	need := 0.0
	for _, f := range measured {
		need = max(need, f.Heap*float64(n))
	}
	// Growing tables hold garbage until it is collected.
	return 2*need <= float64(measure.FreeMemory())
}

// ask measures n users of kind i in a process of its own.
func ask(ctx context.Context, i, n int, q question) (figures, error) {
	w, err := worker.Start(ctx, "worker", strconv.Itoa(i), strconv.Itoa(n))
	if err != nil {
		return figures{}, err
	}
	defer w.Close()
	var f figures
	err = w.Ask(q, &f)
	return f, err
}

// serve is the worker: it measures args[1] users of kind args[0].
func serve(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("no worker with arguments %q", args)
	}
	i, err := strconv.Atoi(args[0])
	if err != nil || i < 0 || i >= len(users) {
		return fmt.Errorf("no user %q", args[0])
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of users", args[1])
	}
	return worker.Serve(func(q question) (figures, error) { return measureUsers(users[i], n, q) })
}
