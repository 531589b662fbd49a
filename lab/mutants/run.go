package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// verdict is what became of a mutant, or of the unchanged code.
type verdict uint8

const (
	survived verdict = iota // the tests passed
	killed                  // a test failed
	hung                    // a test did not end in time: as good as failed
	broken                  // there was nothing to test: no build, no test
)

// runner tests mutants of the module at root. It keeps its files in tmp.
type runner struct {
	root, tmp string
	timeout   time.Duration // of one run of tests
}

// baseline reports why nothing would be proven if tests of a package failed on a
// mutant.
func (r runner) baseline(ctx context.Context, pkg string, patterns []string) error {
	// An alternative may have slashes: each part of it is in brackets.
	r.timeout *= 6
	v, by, out := r.test(ctx, pkg, strings.Join(patterns, "|"), "")
	if v == survived {
		return nil
	}
	return fmt.Errorf("%s %s does not pass on the unchanged code (%s):\n%s", pkg, strings.Join(patterns, "|"), by, out)
}

// try tests m, the mutant of a number. by is the test that failed. It fails if
// none did.
func (r runner) try(ctx context.Context, number int, m mutant) (by string, err error) {
	file, text, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	changed := filepath.Join(r.tmp, fmt.Sprint(number, filepath.Ext(file)))
	overlay := filepath.Join(r.tmp, fmt.Sprint(number, ".json"))
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o644), os.WriteFile(overlay, list, 0o644)); err != nil {
		return "", err
	}
	v, by, out := r.test(ctx, m.kill.pkg, anchored(m.kill.pattern), overlay)
	switch v {
	case survived:
		return "", fmt.Errorf("mutant %s survives %s (%s)", m, m.kill, m.harm)
	case broken:
		return "", fmt.Errorf("mutant %s proves nothing with %s (%s):\n%s", m, m.kill, by, out)
	case hung:
		by += " (timeout)"
	}
	return by, nil
}

// test runs tests of a package, with the overlay if there is one. by says which
// test failed, or what went wrong.
func (r runner) test(ctx context.Context, pkg, pattern, overlay string) (v verdict, by, out string) {
	// Vet would refuse some mutants that the compiler takes.
	args := []string{"test", "-short", "-failfast", "-vet=off", "-p=1", "-timeout", r.timeout.String(), "-run", pattern}
	if overlay != "" {
		args = append(args, "-count=1", "-overlay", overlay)
	}
	ctx, stop := context.WithTimeout(ctx, 2*r.timeout+3*time.Minute) // compiling counts
	defer stop()
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = r.root
	cmd.WaitDelay = 5 * time.Second
	// The short forms have to do, and what is drawn against broken code is not
	// worth keeping. The seed makes random tests the same for all mutants.
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
	v, by = classify(out, err == nil)
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

// classify reads what go test printed.
func classify(out string, passed bool) (v verdict, by string) {
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
