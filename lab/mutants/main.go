package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	var o options
	flag.BoolVar(&o.list, "list", false, "list the mutants and exit")
	flag.StringVar(&o.run, "run", "", "only mutants whose name matches the regular expression")
	flag.IntVar(&o.jobs, "jobs", min(runtime.NumCPU(), 4), "mutants at a time")
	flag.BoolVar(&o.write, "write", false, "renew the tables of "+page+", or with -run the rows of those that are tried")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	list  bool
	run   string
	jobs  int
	write bool
}

func command(ctx context.Context, o options) error {
	if o.jobs < 1 || flag.NArg() > 0 {
		return errors.New("usage: go run ./lab/mutants [-list] [-run regexp] [-jobs n] [-write]")
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	all, err := load(root)
	if err != nil {
		return err
	}
	chosen, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	tried := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !chosen.MatchString(m.name) })
	if len(tried) == 0 {
		return fmt.Errorf("no mutant matches %q: see -list", o.run)
	}
	if o.list {
		for _, m := range tried {
			fmt.Printf("%-36s %s\n", m.name, m.mistake)
		}
		return nil
	}
	results, err := runAll(ctx, root, tried, o.jobs)
	if err != nil {
		return err
	}
	if o.write {
		return writePage(root, all, results)
	}
	return nil
}

// runAll tests all mutants on copies of the module at root and prints what
// became of each.
func runAll(ctx context.Context, root string, all []mutant, jobs int) ([]result, error) {
	start := time.Now()
	files, err := listed(ctx, root)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	runners := make([]runner, min(jobs, len(all)))
	for i := range runners {
		// Without trimpath the build cache would tell the copies apart.
		runners[i] = runner{dir: filepath.Join(tmp, fmt.Sprint(i)), timeout: 30 * time.Second, flags: []string{"-trimpath"}}
		if err := copyTree(root, runners[i].dir, files); err != nil {
			return nil, err
		}
	}
	if err := baselines(ctx, runners, all); err != nil {
		return nil, err
	}
	results := make([]result, len(all))
	var print sync.Mutex
	share(runners, len(all), func(r runner, i int) {
		results[i] = r.try(ctx, all[i])
		print.Lock()
		defer print.Unlock()
		fmt.Println(results[i].line())
	})
	var errs []error
	for _, r := range results {
		errs = append(errs, r.err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%d of %d mutants were not killed:\n%w", len(all)-deaths(results), len(all), err)
	}
	fmt.Printf("%d mutants, all killed, in %s\n", len(all), time.Since(start).Round(time.Second))
	return results, nil
}

// baselines runs every test that a mutant names on the unchanged code.
func baselines(ctx context.Context, runners []runner, all []mutant) error {
	var kills []kill
	for _, m := range all {
		for _, k := range m.kills {
			if !slices.Contains(kills, k) {
				kills = append(kills, k)
			}
		}
	}
	errs := make([]error, len(kills))
	share(runners, len(kills), func(r runner, i int) { errs[i] = r.baseline(ctx, kills[i]) })
	return errors.Join(errs...)
}

// share does n pieces of work, each runner one at a time.
func share(runners []runner, n int, do func(r runner, i int)) {
	work := make(chan int)
	var wg sync.WaitGroup
	for _, r := range runners {
		wg.Go(func() {
			for i := range work {
				do(r, i)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
}

func deaths(results []result) (n int) {
	for _, r := range results {
		if r.err == nil {
			n++
		}
	}
	return n
}

func (r result) line() string {
	if r.err != nil {
		return fmt.Sprintf("%-36s NOT KILLED   %5.1fs", r.mutant.name, r.took.Seconds())
	}
	return fmt.Sprintf("%-36s killed %5.1fs by %s", r.mutant.name, r.took.Seconds(), strings.Join(r.by, " and "))
}
