package envoy

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

var update = flag.Bool("update", false, "write the answers into the files of testdata")

// system is what a file of testdata is played on.
type system interface {
	load(t *testing.T, files []File, merge bool) string
	ask(t *testing.T, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error)
	json(t *testing.T, body string) (int, string)
	dump(t *testing.T) string
	counters(t *testing.T) map[string]uint64
	stats(t *testing.T) map[string]uint64
}

// TestCompat plays the files of testdata/compat: what a service is asked, each
// followed by its answers. In the files are:
//
//	set NAME=VALUE      a variable of envoyproxy/ratelimit, before anything else
//	here only           the reference is not asked: it cannot, or answers otherwise
//	now SECONDS         the clock, from 1700000000 on
//	load [mergeMetadata] FILE.. load rules
//	ask DOMAIN [hits=N] DESCRIPTOR..
//	                    a descriptor is KEY=VALUE,.. and may have behind it
//	                    @COUNT/UNIT[xN] (an override), +N (hits_addend), -N (hits
//	                    given back); - alone has no entries; (Nx) before the domain repeats
//	json TEXT           a body for /json
//	dump                /rlconfig
//	counters            the counters that changed
//	stats               the statistics that changed
//
// Where WEIR_REFERENCE names a binary, envoyproxy/ratelimit is asked the same.
func TestCompat(t *testing.T) {
	files, err := filepath.Glob("testdata/compat/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, archive: archive}
			s.read()
			h := newHere(t, s)
			s.system, s.now = h, h.setNow
			got := s.play()
			if *update {
				archive.Comment = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := string(archive.Comment); got != want {
				t.Errorf("%s", difference(want, got))
			}
			if s.hereOnly || os.Getenv("WEIR_REFERENCE") == "" {
				return
			}
			// At the same time: which windows begin together, and share counters, is
			// another matter each day and hour.
			h = newHere(t, s)
			h.setNow(time.Now().Unix())
			s.system, s.now = h, nil
			s.heard = nil
			got = s.play()
			s.system, s.expected = newThere(t, s), s.heard
			if theirs, mine := timeless(s.play()), timeless(got); theirs != mine {
				t.Errorf("the reference differs:\n%s", difference(theirs, mine))
			}
		})
	}
}

// times is what the clock makes of an answer, and which of two files is at fault:
// the reference reads them in no order.
var times = regexp.MustCompile(`reset \d+|_\d{10}\b|((?i)reset(?:-in)?: )\d+|"\d+s"|config\.\w+\.yaml(: duplicate)`)

func timeless(s string) string { return times.ReplaceAllString(s, "$1$2(any)") }

// difference shows the first line in which two texts differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			from := max(0, i-6)
			return fmt.Sprintf("line %d\nwant: %s\ngot:  %s", i+1, strings.Join(w[from:min(i+3, len(w))], "\n      "), strings.Join(g[from:min(i+3, len(g))], "\n      "))
		}
	}
	return "there is more behind the end"
}

// script is a file of testdata.
type script struct {
	t        *testing.T
	archive  *txtar.Archive
	env      map[string]string
	hereOnly bool
	system   system
	now      func(int64)
	// counted and told are what counters and stats said before.
	counted, told map[string]uint64
	// heard are the answers to stats, expected those that are waited for.
	heard, expected [][]string
}

// read looks for what must be known before.
func (s *script) read() {
	s.env = map[string]string{}
	for line := range strings.Lines(string(s.archive.Comment)) {
		line = strings.TrimSpace(line)
		if kv, ok := strings.CutPrefix(line, "set "); ok {
			k, v, _ := strings.Cut(kv, "=")
			s.env[k] = v
		}
		s.hereOnly = s.hereOnly || line == "here only"
	}
}

// play returns the script with the answers of the system.
func (s *script) play() string {
	s.counted, s.told = map[string]uint64{}, map[string]uint64{}
	var out strings.Builder
	for line := range strings.Lines(string(s.archive.Comment)) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, answer := range s.do(word, rest) {
			out.WriteString("\t" + answer + "\n")
		}
	}
	return out.String()
}

func (s *script) do(word, rest string) []string {
	switch word {
	case "", "#", "set", "here":
		return nil
	case "now":
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.now != nil {
			s.now(n)
		}
		return nil
	case "load":
		rest, merge := strings.CutPrefix(rest, "merge ")
		if text := s.system.load(s.t, s.files(rest), merge); text != "" {
			// The protobuf library writes a space of either kind.
			return strings.Split("error "+strings.ReplaceAll(text, "\u00a0", " "), "\n")
		}
		return []string{"ok"}
	case "ask":
		return s.ask(rest)
	case "json":
		code, body := s.system.json(s.t, rest)
		resp := &rlsv3.RateLimitResponse{}
		if err := protojson.Unmarshal([]byte(body), resp); err == nil {
			body = string(protojsonText(resp))
		}
		return []string{fmt.Sprint(code, " ", strings.TrimSpace(body))}
	case "dump":
		l := strings.Split(strings.TrimSuffix(s.system.dump(s.t), "\n"), "\n")
		slices.Sort(l)
		return l
	case "counters":
		all := s.system.counters(s.t)
		defer func() { s.counted = all }()
		return changes(s.counted, all)
	case "stats":
		all := s.system.stats(s.t)
		if len(s.expected) > 0 {
			// The reference tells them when its time has come.
			for end := time.Now().Add(5 * time.Second); !slices.Equal(changes(s.told, all), s.expected[0]) && time.Now().Before(end); {
				all = s.system.stats(s.t)
			}
			s.expected = s.expected[1:]
		}
		defer func() { s.told = all }()
		l := changes(s.told, all)
		s.heard = append(s.heard, l)
		return l
	}
	s.t.Fatalf("no such command: %s", word)
	return nil
}

// protojsonText is protojson without its random spaces.
func protojsonText(resp *rlsv3.RateLimitResponse) []byte {
	b, err := protojson.Marshal(resp)
	if err != nil {
		panic(err)
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(", "), []byte(",")), []byte(": "), []byte(":"))
}

func changes(was, is map[string]uint64) (l []string) {
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if n, ok := was[name]; !ok || n != is[name] {
			l = append(l, fmt.Sprint(name, " ", is[name]-n))
		}
	}
	return l
}

func (s *script) files(names string) (files []File) {
	for _, name := range strings.Fields(names) {
		i := slices.IndexFunc(s.archive.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 {
			s.t.Fatalf("no file %s", name)
		}
		files = append(files, File{Name: name, Content: s.archive.Files[i].Data})
	}
	return files
}

var repeated = regexp.MustCompile(`^\((\d+)x\) `)

func (s *script) ask(text string) (l []string) {
	times := 1
	if m := repeated.FindStringSubmatch(text); m != nil {
		times, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	req := request(s.t, text)
	for range times {
		resp, err := s.system.ask(s.t, req)
		if err != nil {
			st := status.Convert(err)
			l = append(l, fmt.Sprintf("error %s %s", st.Code(), st.Message()))
			continue
		}
		l = append(l, describe(resp))
	}
	return l
}
