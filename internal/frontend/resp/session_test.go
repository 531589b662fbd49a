package resp

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the replies into the sessions anew")

// TestSessions plays testdata/*.session, byte for byte. A line is
//
//	# a comment
//	password WORD           before everything else: clients must authenticate
//	clock +1s               the time goes on
//	> COMMAND word "a word" a command; inline, where no word is quoted
//	< REPLY                 its reply, with a bar for the end of each line
//
// What no two runs have in common reads N.
func TestSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.session")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d sessions, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { play(t, file) })
	}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`)

// typed returns a command as the client of a session sends it.
func typed(t *testing.T, line string) []byte {
	t.Helper()
	if !strings.Contains(line, `"`) {
		return []byte(line + "\r\n")
	}
	words := quoted.FindAllString(line, -1)
	for i, w := range words {
		if w[0] == '"' {
			text, err := strconv.Unquote(w)
			if err != nil {
				t.Fatalf("%s: %v", w, err)
			}
			words[i] = text
		}
	}
	return wire(words...)
}

var varies = regexp.MustCompile(`(\bid\|:|id=|addr=|age=|uptime_in_seconds:|used_memory:|lease\|\$26\|)[\w.:]+`)

func play(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{}
	if m := regexp.MustCompile(`(?m)^password (\S+)$`).FindSubmatch(data); m != nil {
		opt.Password = string(m[1])
	}
	b := newBench(t, opt)
	c := b.dial(t)
	var out []string
	got, pending := "", false
	flush := func(line int) {
		if pending && !*update {
			t.Errorf("%s:%d: the reply is missing: %s", file, line, got)
		}
		if pending {
			out = append(out, "< "+got)
		}
		pending = false
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "< "):
			if !pending {
				t.Fatalf("%s:%d: a reply to nothing", file, i+1)
			}
			if want := line[2:]; got != want && !*update {
				t.Errorf("%s:%d:\n got %s\nwant %s", file, i+1, got, want)
			}
			line, pending = "< "+got, false
		case strings.HasPrefix(line, "> "):
			flush(i)
			c.send(typed(t, line[2:]))
			got, pending = varies.ReplaceAllString(c.reply(), "${1}N"), true
		case strings.HasPrefix(line, "clock +"):
			flush(i)
			d, err := time.ParseDuration(line[len("clock +"):])
			if err != nil {
				t.Fatal(err)
			}
			b.now.Add(d.Microseconds())
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "password "):
			flush(i)
		default:
			t.Fatalf("%s:%d: what is %q?", file, i+1, line)
		}
		out = append(out, line)
	}
	flush(len(out))
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
