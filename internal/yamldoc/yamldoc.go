// Package yamldoc reads the one YAML document of a file that people write, and says in
// which line they went wrong.
package yamldoc

import (
	"bytes"
	"errors"
	"io"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Fault is why a file is not one document. Line and Column count from 1; a Column of 0 is not
// known.
type Fault struct {
	Line, Column int
	Msg, Hint    string
}

// String returns what is wrong and how to put it right, without the place.
func (f *Fault) String() string {
	if f.Hint == "" {
		return f.Msg
	}
	return f.Msg + " (" + f.Hint + ")"
}

// Read returns the document of src, and nil if there is none, or why it cannot.
func Read(src []byte) (*yaml.Node, *Fault) {
	docs, err := decode(src)
	switch {
	case err != nil:
		return nil, syntax(src, err)
	case len(docs) == 0 || len(docs[0].Content) == 0:
		return nil, nil
	case len(docs) > 1:
		return nil, &Fault{docs[1].Line, docs[1].Column, "a second document begins here", "give each document a file of its own"}
	}
	return docs[0], nil
}

// decode returns the first documents of src, two at most.
func decode(src []byte) (docs []*yaml.Node, err error) {
	for dec := yaml.NewDecoder(bytes.NewReader(src)); len(docs) < 2; {
		doc := new(yaml.Node)
		if err := dec.Decode(doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// syntax returns the fault that the parser's error is. Its text begins with a line, except
// on the first one and for an anchor.
func syntax(src []byte, err error) *Fault {
	f := &Fault{}
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		line, after, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(line); err == nil {
			f.Line, msg = n, after
		}
	} else if name, ok := strings.CutPrefix(msg, "unknown anchor '"); ok { // which has no line
		name, _, _ = strings.Cut(name, "'")
		f.Line = 1 + bytes.Count(src[:max(bytes.Index(src, []byte("*"+name)), 0)], []byte("\n"))
	} else {
		f.Line = 1
	}
	f.Msg = "not YAML: " + msg
	lines := bytes.SplitAfter(src, []byte("\n"))
	f.Hint = hints[msg]
	if strings.HasPrefix(msg, "did not find expected ") && f.Hint != "" && len(src) <= searched {
		// The parser stops with this error as soon as it has read the line that is out of
		// place, but names that where the list or block begins.
		f.Line = 1 + sort.Search(len(lines)-1, func(n int) bool {
			_, e := decode(bytes.Join(lines[:n+1], nil))
			return e != nil && e.Error() == err.Error()
		})
	}
	if f.Line >= 1 && f.Line <= len(lines) {
		text := lines[f.Line-1]
		if bytes.ContainsRune(text[:len(text)-len(bytes.TrimLeft(text, " \t"))], '\t') {
			f.Hint = "indent with spaces, not with a tab"
		}
	}
	return f
}

// searched bounds the files whose lines are searched for one that is out of place, in
// bytes: each of some twenty looks reads the file up to there.
const searched = 1 << 20

// hints say what is meant by the parser's errors about a line that does not belong where it
// stands.
var hints = map[string]string{
	"did not find expected key":                      "indent it as its neighbors are",
	"did not find expected '-' indicator":            `begin it with "- ", as the items of this list, or indent it as what it belongs to`,
	"did not find expected <document start>":         "indent it as the lines above it",
	"mapping values are not allowed in this context": `indent it as its neighbors are, or quote a text that holds ": "`,
}
