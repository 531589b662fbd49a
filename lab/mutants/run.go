package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// verdict is what became of a mutant under one kill line, or of the unchanged
// code.
type verdict uint8

const (
	survived verdict = iota // the tests passed
	killed                  // a test failed
	hung                    // a test did not end in time: as good as failed
	broken                  // there was nothing to test: no build, no test
)

// result is what became of a mutant.
type result struct {
	mutant mutant
	// by names the test that noticed, for each kill line.
	by   []string
	took time.Duration
	err  error // why it survived, or could not be tested
}

// runner tests mutants in one copy of the module.
type runner struct {
	dir     string
	timeout time.Duration // of one run of tests
	flags   []string      // more flags for go test
}

// baseline reports why nothing would be proven if k failed on a mutant.
func (r runner) baseline(ctx context.Context, k kill) error {
	v, by, out := r.test(ctx, k)
	if v == survived {
		return nil
	}
	return fmt.Errorf("%s does not pass on the unchanged code (%s):\n%s", k, by, out)
}

// try applies m, tests it, and takes it back.
func (r runner) try(ctx context.Context, m mutant) (res result) {
	start := time.Now()
	res.mutant = m
	defer func() { res.took = time.Since(start) }()
	before, after, err := m.mutate(r.dir)
	if err != nil {
		res.err = err
		return res
	}
	if err := write(r.dir, after); err != nil {
		res.err = err
		return res
	}
	defer func() { res.err = errors.Join(res.err, write(r.dir, before)) }()
	for _, k := range m.kills {
		v, by, out := r.test(ctx, k)
		switch v {
		case killed:
		case hung:
			by += " (timeout)"
		case survived:
			res.err = errors.Join(res.err, fmt.Errorf("%s survives %s", m.name, k))
			continue
		case broken:
			res.err = errors.Join(res.err, fmt.Errorf("%s.patch proves nothing with %s (%s):\n%s", m.name, k, by, out))
			continue
		}
		res.by = append(res.by, by)
	}
	return res
}

// test runs the tests of k. by says which test failed, or what went wrong.
func (r runner) test(ctx context.Context, k kill) (v verdict, by, out string) {
	// Vet would refuse some mutants that the compiler takes. The seed makes
	// random tests of one run the same for all mutants.
	args := append([]string{"test", "-count=1", "-short", "-failfast", "-vet=off", "-p=1",
		"-timeout", r.timeout.String(), "-run", anchored(k.pattern)}, r.flags...)
	ctx, stop := context.WithTimeout(ctx, 2*r.timeout+time.Minute) // compiling counts
	defer stop()
	cmd := exec.CommandContext(ctx, "go", append(args, k.pkg)...)
	cmd.Dir = r.dir
	cmd.WaitDelay = 5 * time.Second
	// The short forms have to do, and what is drawn against broken code is not
	// worth keeping.
	cmd.Env = append(os.Environ(), "WEIR_SOAK=", "RAPID_NOFAILFILE=true")
	if os.Getenv("WEIR_SEED") == "" {
		cmd.Env = append(cmd.Env, "WEIR_SEED=1")
	}
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	err := cmd.Run()
	out = buf.String()
	var exit *exec.ExitError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &exit)) {
		return broken, errors.Join(err, ctx.Err()).Error(), tail(out)
	}
	v, by = judge(out, err == nil)
	return v, by, tail(out)
}

// anchored makes each part of a pattern match whole names.
func anchored(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, p := range parts {
		parts[i] = "^(" + p + ")$"
	}
	return strings.Join(parts, "/")
}

var (
	failed  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	running = regexp.MustCompile(`running tests:\s+(\S+)`)
	crashed = regexp.MustCompile(`(?m)^(fatal error: .*|panic: .*|SIG[A-Z]+: .*)$`)
)

// judge reads what go test printed.
func judge(out string, passed bool) (v verdict, by string) {
	switch {
	case passed && strings.Contains(out, "[no tests to run]"), passed && strings.Contains(out, "[no test files]"):
		return broken, "no test of that name"
	case passed:
		return survived, ""
	case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
		return broken, "does not compile"
	case strings.Contains(out, "panic: test timed out after"):
		if m := running.FindStringSubmatch(out); m != nil {
			return hung, m[1]
		}
		return hung, "a test"
	}
	names := failed.FindAllStringSubmatch(out, -1)
	if len(names) > 0 {
		// Subtests stand below their test: the longest name says most.
		best := slices.MaxFunc(names, func(a, b []string) int {
			return strings.Count(a[1], "/") - strings.Count(b[1], "/")
		})
		return killed, best[1]
	}
	if m := crashed.FindStringSubmatch(out); m != nil {
		return killed, m[1]
	}
	return broken, "failed without a failing test"
}

// tail returns the end of a long text.
func tail(s string) string {
	const most = 3000
	if len(s) > most {
		return "...\n" + s[len(s)-most:]
	}
	return s
}
