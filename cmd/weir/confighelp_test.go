package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/config"
)

// The help of serve fits two screens, describes the 20 flags that people need, and names the
// others, of which there are not many.
func TestServeHelpIsShort(t *testing.T) {
	const mostLines, mostDescribed, mostFlags = 75, 20, 40
	out := helpOf(t, "serve")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	_, more, _ := strings.Cut(out, "More flags")
	described := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "  --") && !strings.Contains(more, line) {
			described++
		}
	}
	named := len(strings.Fields(more[strings.IndexByte(more, '\n'):]))
	if len(lines) > mostLines || described > mostDescribed || described+named > mostFlags {
		t.Errorf("%d lines, %d flags described and %d named", len(lines), described, named)
	}
	for _, s := range config.Settings() {
		if n := len(regexp.MustCompile(`(?m)^  (--\S+ )*--`+s.Flag+`(=\S+)?( |$)`).FindAllString(out, -1)); s.Flag != "" && n != 1 {
			t.Errorf("%s: --%s is there %d times", s.Key, s.Flag, n)
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
	for _, s := range config.Settings() {
		if !strings.Contains(keys, "\n"+s.Key) {
			t.Errorf("weir help config does not list %s", s.Key)
		}
		if s.OldFlag == "" {
			continue
		}
		moved++
		var out, err bytes.Buffer
		code := runCommand([]string{"serve", "--" + s.OldFlag, "1"}, streams{strings.NewReader(""), &out, &err})
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
