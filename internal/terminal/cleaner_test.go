package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testing/terminaltest"
)

// Writers that share a cleaner, such as a log and statistics, lose nothing and break no
// line of each other.
func TestCleanerOfSeveralWriters(t *testing.T) {
	const lines = 200
	var out bytes.Buffer
	c := &cleaner{w: &out}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range lines {
				if _, err := c.Write([]byte("a line\xe2")); err != nil {
					t.Error(err)
				}
				if _, err := c.Write([]byte("\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := strings.Count(out.String(), "a line"); n != 4*lines {
		t.Errorf("%d of %d lines were written", n, 4*lines)
	}
	if n := strings.Count(out.String(), `\xe2`); n != 4*lines {
		t.Errorf("%d of %d broken characters were written", n, 4*lines)
	}
}

// FuzzCleaner: what is written in parts is what is written at once, nothing of it
// is obeyed, and JSON stays the same JSON.
func FuzzCleaner(f *testing.F) {
	f.Add([]byte(terminaltest.Hostile), 3)
	f.Add([]byte("é漢\U0001F600\u200d\xff\xf0\x9f"), 1)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		var whole, parts bytes.Buffer
		if _, err := (&cleaner{w: &whole}).Write(append(text, ' ')); err != nil {
			t.Fatal(err)
		}
		c := &cleaner{w: &parts}
		for rest := append(text, ' '); len(rest) > 0; {
			n := min(max(step%7, 1), len(rest))
			if m, err := c.Write(rest[:n]); m != n || err != nil {
				t.Fatalf("wrote %d of %d, %v", m, n, err)
			}
			rest = rest[n:]
		}
		if whole.String() != parts.String() {
			t.Fatalf("%q at once, %q in parts", whole.String(), parts.String())
		}
		if r, bad := terminaltest.FindObeyed(whole.String()); bad {
			t.Fatalf("%q: %U is obeyed", whole.String(), r)
		}
		doc, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var clean bytes.Buffer
		if _, err := (&cleaner{w: &clean}).Write(doc); err != nil {
			t.Fatal(err)
		}
		var was, is string
		if err := json.Unmarshal(doc, &was); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(clean.Bytes(), &is); err != nil || was != is {
			t.Fatalf("%s became %s: %v", doc, clean.Bytes(), err)
		}
	})
}
