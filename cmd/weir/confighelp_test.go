package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/server"
)

// The help of serve fits a few screens: at most 150 lines of 100 columns, and one
// line for each flag.
func TestServeHelpIsShort(t *testing.T) {
	out := helpOf(t, "serve")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) > 150 {
		t.Errorf("%d lines, want at most 150", len(lines))
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	for _, s := range server.Settings() {
		flag := func(line string) bool {
			name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			name, _, _ = strings.Cut(name, "=")
			return name == "--"+s.Flag
		}
		want := 1
		if s.Flag == "" {
			want = 0
		}
		if i := slices.IndexFunc(lines, flag); (i >= 0) != (want == 1) {
			t.Errorf("%s: flag %q is on line %d", s.Key, s.Flag, i)
		}
	}
}

// The help of each command, and that of all, fits a terminal of 80 columns, and no line of
// an example is broken by it.
func TestHelpFitsTerminals(t *testing.T) {
	parser, err := newParser(&cli{}, streams{})
	if err != nil {
		t.Fatal(err)
	}
	commands := [][]string{nil}
	for _, n := range parser.Model.Leaves(true) {
		commands = append(commands, []string{n.Name})
	}
	if n := len(commands) - 1; n > 18 {
		t.Errorf("%d subcommands, want at most 18", n)
	}
	for _, args := range commands {
		if slices.Equal(args, []string{"serve"}) {
			continue // see TestServeHelpIsShort
		}
		for line := range strings.Lines(helpOf(t, args...)) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > 80 {
				t.Errorf("weir %v --help: %d columns: %s", args, len(line), line)
			}
		}
	}
}

// A flag or a variable of an earlier version is answered with the place of its
// setting, and every key is listed.
func TestMovedSettings(t *testing.T) {
	var list bytes.Buffer
	if err := printConfigKeys(&list); err != nil {
		t.Fatal(err)
	}
	keys := list.String()
	moved := 0
	for _, s := range server.Settings() {
		if !strings.Contains(keys, "\n"+s.Key) {
			t.Errorf("weir help config does not list %s", s.Key)
		}
		if s.OldFlag == "" {
			continue
		}
		moved++
		var out, err bytes.Buffer
		code := run([]string{"serve", "--" + s.OldFlag, "1"}, streams{strings.NewReader(""), &out, &err})
		if code != exitError || !strings.Contains(err.String(), "--"+s.OldFlag+" is now") || !strings.Contains(err.String(), s.Key) {
			t.Errorf("--%s: %d %s", s.OldFlag, code, err.String())
		}
		if got := strayEnv([]string{s.OldEnv() + "=1"}, nil); !strings.Contains(got, s.Key) {
			t.Errorf("%s: %q", s.OldEnv(), got)
		}
	}
	if moved < 60 {
		t.Errorf("only %d settings have moved", moved)
	}
}

// helpOf returns what weir --help prints, of a command if there is one.
func helpOf(t *testing.T, command ...string) string {
	t.Helper()
	var out bytes.Buffer
	parser, err := newParser(&cli{}, streams{out: &out, err: &out})
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := kong.Trace(parser, command)
	if err != nil {
		t.Fatal(err)
	}
	if err := printHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100, ValueFormatter: withDefault}, ctx); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
