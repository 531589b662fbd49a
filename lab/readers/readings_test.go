package readers

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reading is what a server finds in a request that it serves.
type reading struct {
	Route          string
	Keys, Accounts []string
}

// users returns whose keys a server finds.
func (r reading) users() (out []string) {
	for _, k := range r.Keys {
		switch k {
		case aliceKey:
			out = append(out, "alice")
		case bobKey:
			out = append(out, "bob")
		}
	}
	return out
}

// recorded is a request, and which servers read what. A server that is not there refused.
type recorded struct {
	request request
	by      map[string][]string // the servers, by what they read as text
}

const recording = "testdata/readings.txt"

// text is a reading as the file has it.
func (r reading) text() string {
	return strings.TrimRight(fmt.Sprintf("%s %s %s", r.Route, quoted(r.Keys), quoted(r.Accounts)), " ")
}

func quoted(texts []string) string {
	texts = slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	slices.Sort(texts)
	q := make([]string, 0, len(texts))
	for _, s := range slices.Compact(texts) {
		q = append(q, strconv.QuoteToASCII(s))
	}
	return "[" + strings.Join(q, ",") + "]"
}

// readingOf reads what text wrote.
func readingOf(t testing.TB, s string) (r reading) {
	t.Helper()
	route, rest, ok := strings.Cut(s, " ")
	keys, accounts, ok2 := strings.Cut(rest, "] [")
	if !ok || !ok2 {
		t.Fatalf("not a reading: %s", s)
	}
	return reading{route, unquoted(t, keys+"]"), unquoted(t, "["+accounts)}
}

func unquoted(t testing.TB, list string) (out []string) {
	t.Helper()
	for rest := list[1 : len(list)-1]; rest != ""; rest = strings.TrimPrefix(rest, ",") {
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		s, err := strconv.Unquote(q)
		if err != nil {
			t.Fatalf("%s: %v", list, err)
		}
		out, rest = append(out, s), rest[len(q):]
	}
	return out
}

// load reads the file: a line for a request, its target and fields in quotes, then lines
// that begin with a tab, for a reading and the servers that have it.
func load(t testing.TB) (out []recorded) {
	t.Helper()
	f, err := os.Open(recording)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line, isReading := strings.CutPrefix(lines.Text(), "\t")
		if isReading {
			servers, text, _ := strings.Cut(line, ": ")
			out[len(out)-1].by[text] = strings.Fields(servers)
			continue
		}
		parts := unquoted(t, "["+line+"]")
		out = append(out, recorded{request{parts[0], parts[1:]}, map[string][]string{}})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// save writes the file.
func save(t testing.TB, all []recorded) {
	t.Helper()
	var b strings.Builder
	for _, one := range all {
		q := []string{strconv.QuoteToASCII(one.request.target)}
		for _, f := range one.request.fields {
			q = append(q, strconv.QuoteToASCII(f))
		}
		fmt.Fprintln(&b, strings.Join(q, ","))
		texts := slices.SortedFunc(maps.Keys(one.by), func(a, b string) int {
			return cmp.Compare(strings.Join(one.by[a], " "), strings.Join(one.by[b], " "))
		})
		for _, text := range texts {
			fmt.Fprintf(&b, "\t%s: %s\n", strings.Join(one.by[text], " "), text)
		}
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recording, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
