package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
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
	flag.StringVar(&o.run, "run", "", "only mutants whose package, function or harm matches the regular expression")
	flag.IntVar(&o.jobs, "jobs", min(runtime.NumCPU(), 4), "mutants at a time")
	flag.BoolVar(&o.write, "write", false, "renew "+page+" and exit")
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
	all, err := parseTable(table)
	if err != nil {
		return err
	}
	chosen, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	tried := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !chosen.MatchString(m.String() + " " + m.harm) })
	switch {
	case o.write:
		return os.WriteFile(filepath.Join(root, page), []byte(render(all)), 0o644)
	case len(tried) == 0:
		return fmt.Errorf("no mutant matches %q: see -list", o.run)
	case o.list:
		for _, m := range tried {
			fmt.Printf("%-48s %s\n", m, m.harm)
		}
		return nil
	}
	return runAll(ctx, root, tried, o.jobs)
}

// moduleRoot returns the folder of the module that the command runs in.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("not in a module: run it in the repository")
	}
	return filepath.Dir(mod), nil
}

// runAll tests mutants of the module at root, jobs at a time, and prints what
// became of each. It fails unless all are killed.
func runAll(ctx context.Context, root string, all []mutant, jobs int) error {
	start := time.Now()
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r := runner{root: root, tmp: tmp, timeout: 20 * time.Second}
	patterns := map[string][]string{}
	for _, m := range all {
		if p := anchored(m.kill.pattern); !slices.Contains(patterns[m.kill.pkg], p) {
			patterns[m.kill.pkg] = append(patterns[m.kill.pkg], p)
		}
	}
	packages := slices.Sorted(maps.Keys(patterns))
	errs := make([]error, len(packages))
	share(jobs, len(packages), func(i int) { errs[i] = r.baseline(ctx, packages[i], patterns[packages[i]]) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	errs = make([]error, len(all))
	var print sync.Mutex
	share(jobs, len(all), func(i int) {
		begin := time.Now()
		by, err := r.try(ctx, i, all[i])
		errs[i] = err
		print.Lock()
		defer print.Unlock()
		if err != nil {
			by = "NOBODY"
		}
		fmt.Printf("%-48s %5.1fs killed by %s\n", all[i], time.Since(begin).Seconds(), by)
	})
	if err := errors.Join(errs...); err != nil {
		survivors := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
		return fmt.Errorf("%d of %d mutants were not killed:\n%w", len(survivors), len(all), err)
	}
	fmt.Printf("%d mutants, all killed, in %s\n", len(all), time.Since(start).Round(time.Second))
	return nil
}

// share calls do with 0 to n-1, jobs calls at a time.
func share(jobs, n int, do func(i int)) {
	work := make(chan int)
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			for i := range work {
				do(i)
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
}
