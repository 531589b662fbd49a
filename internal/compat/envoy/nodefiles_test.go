package envoy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestDifferentialFiles changes a directory of rules under both programs in random
// ways, RUNTIME_WATCH_ROOT being false, and wants both to come to the same rules.
func TestDifferentialFiles(t *testing.T) {
	program := compared(t)
	redis := servertest.Redis(t)
	cases, seed := setting(t, "WEIR_CASES", 20), setting(t, "WEIR_SEED", 1)
	for i := range (cases + 4) / 5 {
		g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed+i), 13)), brief: true, atMost: 1}
		dots := g.chance(50)
		f := &folders{t: t, g: g, dots: dots}
		for j, binary := range []string{os.Getenv("WEIR_REFERENCE"), program} {
			f.root[j] = t.TempDir()
			f.each(j, func(dir string) error { return os.MkdirAll(dir, 0o755) })
			f.node[j] = startNode(t, binary, "RUNTIME_ROOT="+f.root[j], "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false", fmt.Sprint("RUNTIME_IGNOREDOTFILES=", dots),
				"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "USE_STATSD=false", "DISABLE_STATS=true")
		}
		for range 40 {
			f.change()
			f.compare()
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed+i, strings.Join(f.done, "\n"))
			}
		}
	}
}

// folders are the rules of both.
type folders struct {
	t    *testing.T
	g    *generator
	dots bool
	root [2]string
	node [2]*reference
	// done is what was done so far; version names what Kubernetes mounts.
	done             []string
	version, touched int
}

// each does something in the directory of one.
func (f *folders) each(i int, do func(dir string) error) {
	f.t.Helper()
	if err := do(filepath.Join(f.root[i], "config")); err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
}

// both does something in both directories.
func (f *folders) both(what string, do func(dir string) error) {
	f.t.Helper()
	f.done = append(f.done, what)
	for i := range f.root {
		f.each(i, do)
	}
}

func (f *folders) name() string {
	return pick(f.g, "a.yaml", "a.yaml", "b.yaml", "c.yml", ".h.yaml", "sub/a.yaml", "sub.a.yaml", "sub/deep/d.yaml", ".dot/e.yaml", "é.yaml", "sp ace.yaml")
}

func (f *folders) content() string {
	domain := pick(f.g, "d1", "d2", "d3", "d4", "d5", "d6")
	text := fmt.Sprintf("domain: %s\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: %d}\n", domain, f.g.IntN(100))
	if f.g.chance(12) {
		text = pick(f.g, "", "domain: [", "domain: ''", "foo: 1", "42", "domain: d1", text+text)
	}
	return text
}

// change changes both directories in one way: each leaves either what was before or
// what is then. In between the reference would load more than we do.
func (f *folders) change() {
	name, text := f.name(), f.content()
	put := func(dir string) error {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		tmp := filepath.Join(dir, "..", "new")
		if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
			return err
		}
		return os.Rename(tmp, path)
	}
	switch f.g.IntN(9) {
	case 0, 1, 2:
		f.both("put "+name+" "+text, put)
	case 3:
		f.both("write "+name+" "+text, func(dir string) error {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			// What is a link is written through, which is seen at the next event.
			return os.WriteFile(path, []byte(text), 0o644)
		})
	case 4, 5:
		f.both("remove "+name, func(dir string) error { return os.Remove(filepath.Join(dir, name)) })
	case 6:
		to := pick(f.g, "b.yaml", "c.yml", "moved.yaml")
		f.both("rename "+name+" "+to, func(dir string) error { return os.Rename(filepath.Join(dir, name), filepath.Join(dir, to)) })
	case 7:
		f.both("link "+name+" "+text, func(dir string) error {
			path, target := filepath.Join(dir, name), filepath.Join(dir, "..", fmt.Sprint("target", f.g.names))
			if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(target, target+"to"); err != nil {
				return err
			}
			return os.Rename(target+"to", path)
		})
		f.g.names++
	case 8:
		if f.dots {
			f.mount(text)
		} else {
			f.both("remove the folders", func(dir string) error {
				for _, sub := range []string{"sub", ".dot"} {
					if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	// What changes below is seen at the next event in the directory itself.
	f.both("touch", func(dir string) error {
		return os.WriteFile(filepath.Join(dir, ".touch.yaml"), []byte("domain: touch"), 0o644)
	})
}

// mount changes mounted.yaml as kubelet does.
func (f *folders) mount(text string) {
	f.version++
	f.both("mount "+text, func(dir string) error {
		version := fmt.Sprint("..", f.version)
		if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, version, "mounted.yaml"), []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			return err
		}
		if f.version == 1 {
			if err := os.Symlink("..data/mounted.yaml", filepath.Join(dir, "mounted.yaml")); err != nil {
				return err
			}
		}
		return os.RemoveAll(filepath.Join(dir, fmt.Sprint("..", f.version-1)))
	})
}

// compare waits until both have the same rules, and those of now, which are not to
// be seen if they are refused.
func (f *folders) compare() {
	var shown [2]string
	now, refused := fmt.Sprintf("touch%d.k:", f.touched), time.Now().Add(500*time.Millisecond)
	for end := time.Now().Add(3 * time.Second); ; <-time.After(20 * time.Millisecond) {
		for i, n := range f.node {
			_, text := fetch(f.t, "GET", n.debug+"/rlconfig", "")
			lines := strings.SplitAfter(text, "\n")
			slices.Sort(lines)
			shown[i] = strings.Join(lines, "")
		}
		if shown[0] == shown[1] && (strings.Contains(shown[0], now) || time.Now().After(refused)) {
			return
		}
		if time.Now().After(end) {
			f.t.Errorf("rules\nreference:\n%s\nhere:\n%s", shown[0], shown[1])
			return
		}
	}
}
