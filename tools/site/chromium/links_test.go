package chromium

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// base is the path of the site at its host, as config.mjs sets it.
const base = "/weir/"

// A document is what other pages link to, and what it links to and loads itself.
type document struct {
	anchors map[string]bool
	links   []string
	loads   []string
}

// read parses a page of the site.
func read(t *testing.T, file string) document {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root, err := html.Parse(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	d := document{anchors: map[string]bool{}}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				d.anchors[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				d.links = append(d.links, a.Val)
			case a.Key == "href" || a.Key == "src" || a.Key == "srcset" || a.Key == "poster":
				d.loads = append(d.loads, a.Val)
			}
		}
	}
	return d
}

// readSite parses every page, by its path at the host.
func readSite(t *testing.T) map[string]document {
	t.Helper()
	pages := map[string]document{}
	err := filepath.WalkDir(dist, func(file string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".html" {
			rel, _ := filepath.Rel(dist, file)
			pages[base+filepath.ToSlash(rel)] = read(t, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestEveryPageIsThere compares the site with the Markdown files of docs/.
func TestEveryPageIsThere(t *testing.T) {
	pages := readSite(t)
	const docs = "../../../docs"
	files := 0
	err := filepath.WalkDir(docs, func(file string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(file) == ".md" {
			files++
			rel, _ := filepath.Rel(docs, file)
			want := base + strings.Replace(strings.TrimSuffix(filepath.ToSlash(rel), ".md"), "README", "index", 1) + ".html"
			if d, ok := pages[want]; !ok || len(d.anchors) < 2 {
				t.Errorf("%s: no page %s, or one without headings", file, want)
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestLinks fails where a link leads to no page, to no heading of a page, or to a file that
// the repository does not have.
func TestLinks(t *testing.T) {
	pages := readSite(t)
	inside, anchors, repository := 0, 0, 0
	for at, d := range pages {
		for _, link := range d.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: link %q: %v", at, link, err)
				continue
			}
			if file, ok := strings.CutPrefix(link, "https://github.com/weirlimit/weir/"); ok {
				repository++
				checkRepository(t, at, file)
				continue
			}
			if u.Host != "" {
				continue
			}
			inside++
			to := at
			if u.Path != "" {
				to = path.Join(path.Dir(at), u.Path)
				if path.IsAbs(u.Path) {
					to = path.Clean(u.Path)
				}
				if strings.HasSuffix(u.Path, "/") {
					to += "/index.html"
				}
			}
			target, ok := pages[to]
			if !ok {
				t.Errorf("%s: link %q: the site has no page %s", at, link, to)
				continue
			}
			if u.Fragment != "" {
				anchors++
				if !target.anchors[u.Fragment] {
					t.Errorf("%s: link %q: %s has no heading #%s", at, link, to, u.Fragment)
				}
			}
		}
	}
	if inside < 1000 || anchors < 100 || repository < 50 {
		t.Errorf("%d links inside, %d to headings, %d to the repository: too few, the pattern no longer fits", inside, anchors, repository)
	}
}

// checkRepository checks a link to a file of the repository at GitHub.
func checkRepository(t *testing.T, at, link string) {
	t.Helper()
	kind, rest, _ := strings.Cut(link, "/main/")
	if kind != "blob" && kind != "tree" {
		return // the repository's own page, or its releases
	}
	file, _, _ := strings.Cut(rest, "#")
	info, err := os.Stat(filepath.Join("../../..", filepath.FromSlash(file)))
	if err != nil || info.IsDir() != (kind == "tree") {
		t.Errorf("%s: link to %s of the repository, which has none: %v", at, link, err)
	}
}

// TestNothingFromElsewhere fails where a page or a style loads anything of another host.
func TestNothingFromElsewhere(t *testing.T) {
	loaded := 0
	for at, d := range readSite(t) {
		for _, load := range d.loads {
			if strings.HasPrefix(load, "data:") {
				continue
			}
			loaded++
			rest, ok := strings.CutPrefix(load, base)
			if _, err := os.Stat(filepath.Join(dist, rest)); !ok || err != nil {
				t.Errorf("%s loads %s, which the site does not have", at, load)
			}
		}
	}
	if loaded < 100 {
		t.Errorf("%d files are loaded: the pattern no longer fits", loaded)
	}
	styles, err := filepath.Glob(filepath.Join(dist, "assets", "*.css"))
	if err != nil || len(styles) == 0 {
		t.Fatalf("styles: %q, %v", styles, err)
	}
	for _, file := range styles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:url\(|@import)\s*["']?([^"')]*)`).FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "data:") {
				t.Errorf("%s loads %s", file, m[1])
			}
		}
	}
}
