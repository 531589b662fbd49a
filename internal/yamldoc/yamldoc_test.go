package yamldoc

import (
	"fmt"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"nothing", "# a comment\n", ""},
		{"a document", "a: 1\n", ""},
		{"two documents", "a: 1\n---\nb: 2\n", "line 2: a second document begins here (give each document a file of its own)"},
		{"tab", "a:\n\tb: 1\n", "line 2: not YAML: found character that cannot start any token (indent with spaces, not with a tab)"},
		{"item between list and keys", "user:\n  limits:\n    - name: a\n      rate: 5\n   - name: b\n     rate: 6\n",
			"line 5: not YAML: did not find expected key (indent it as its neighbors are)"},
		{"key between two depths", "a:\n- key: user\n  limits:\n  - name: a\n limit: 3\n",
			"line 5: not YAML: did not find expected key (indent it as its neighbors are)"},
		{"key among items", "limits:\n    - name: a\n      rate: 5\n    rate: 6\n",
			"line 4: not YAML: did not find expected '-' indicator (begin it with \"- \", as the items of this list, or indent it as what it belongs to)"},
		{"item less deep than the list", "descriptors:\n    - key: user\n      limit: 5\n\n  # more\n  - key: x\n",
			"line 6: not YAML: did not find expected key (indent it as its neighbors are)"},
		{"key deeper than its neighbor", "a:\n  - key: user\n     limit: 5\n",
			"line 3: not YAML: mapping values are not allowed in this context (indent it as its neighbors are, or quote a text that holds \": \")"},
		{"bracket", "a: [1,\n  2\nb: 3\n", "line 2: not YAML: did not find expected ',' or ']'"},
		{"alias", "a: 1\nb: *x\n", "line 2: not YAML: unknown anchor 'x' referenced"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := Read([]byte(c.src))
			got := ""
			if err != nil {
				got = fmt.Sprintf("line %d: %s", err.Line, err)
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if (doc != nil) != (c.want == "" && !strings.HasPrefix(c.src, "#")) {
				t.Errorf("document %v", doc)
			}
		})
	}
}

// A file that is read but for one line is at fault in that line, wherever it is, or in one
// below it that does not fit any more.
func TestWrongDepth(t *testing.T) {
	lines := strings.SplitAfter("domain: api\ndescriptors:\n  - key: user\n    limits:\n      - name: a\n        rate: 5/minute\n      - name: b\n        rate: 5/hour\n  - key: plan\n    value: pro\n    descriptors:\n      - key: user\n        limit: 7/second\n", "\n")
	for i := range lines {
		for _, by := range []int{-3, -1, 1, 3} {
			moved := append([]string{}, lines...)
			switch {
			case by > 0:
				moved[i] = strings.Repeat(" ", by) + moved[i]
			case strings.HasPrefix(moved[i], strings.Repeat(" ", -by)):
				moved[i] = moved[i][-by:]
			}
			_, err := Read([]byte(strings.Join(moved, "")))
			if err != nil && (err.Line < i+1 || err.Line > i+2 || err.Hint == "") {
				t.Errorf("line %d is moved by %d, and the fault is %v", i+1, by, err)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, src := range []string{"", "a: 1\n---\nb", "a:\n - b\nc", "\ta", "a: [\n}", "- a\n b: c"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		doc, err := Read([]byte(src))
		if doc != nil && err != nil {
			t.Fatal("both a document and an error")
		}
		if err != nil && (err.Line < 1 || err.Line > len(src)+1) {
			t.Fatalf("%#v", err)
		}
	})
}
