package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const githubFolder = "../../.github"

// readYAML reads a file strictly: GitHub drops a form or a setting with a key that it does
// not know.
func readYAML[T any](t *testing.T, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var into T
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return into
}

// A dependabot is .github/dependabot.yml, with the keys that it uses.
type dependabot struct {
	Version int
	Updates []struct {
		Ecosystem   string `yaml:"package-ecosystem"`
		Directory   string
		Directories []string
		Schedule    struct{ Interval string }
		Groups      map[string]struct{ Patterns []string }
		Limit       int `yaml:"open-pull-requests-limit"`
	}
}

// manifests are the files that say what an ecosystem's updates are for.
var manifests = map[string]*regexp.Regexp{
	"gomod":          regexp.MustCompile(`/go\.mod$`),
	"npm":            regexp.MustCompile(`/package-lock\.json$`),
	"docker":         regexp.MustCompile(`/Dockerfile$`),
	"docker-compose": regexp.MustCompile(`/(docker-)?compose\.yaml$`),
	"github-actions": nil, // "/" stands for .github/workflows
}

// TestDependabotUpdatesEverything fails where a folder has a manifest that no update
// names, or an update names a folder without one.
func TestDependabotUpdatesEverything(t *testing.T) {
	config := readYAML[dependabot](t, githubFolder+"/dependabot.yml")
	if config.Version != 2 || len(config.Updates) != len(manifests) {
		t.Errorf("version %d with %d updates: want 2 with %d", config.Version, len(config.Updates), len(manifests))
	}
	for _, u := range config.Updates {
		manifest, known := manifests[u.Ecosystem]
		if !known || !slices.Contains([]string{"daily", "weekly", "monthly"}, u.Schedule.Interval) {
			t.Errorf("ecosystem %q, interval %q: one of them is not known", u.Ecosystem, u.Schedule.Interval)
		}
		want := []string{"/"}
		if manifest != nil {
			want = foldersWith(t, manifest)
		}
		named := u.Directories
		if u.Directory != "" {
			named = append(named, u.Directory)
		}
		slices.Sort(named)
		if !slices.Equal(named, want) {
			t.Errorf(".github/dependabot.yml: %s names the folders %q; those with a manifest are %q", u.Ecosystem, named, want)
		}
	}
}

// foldersWith returns the folders with a file whose path matches, as "/path".
func foldersWith(t *testing.T, file *regexp.Regexp) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "tmp", "node_modules"}, d.Name()) {
			return filepath.SkipDir
		}
		if rest := strings.TrimPrefix(filepath.ToSlash(path), "../.."); file.MatchString(rest) {
			out = append(out, strings.TrimSuffix(rest[:strings.LastIndex(rest, "/")+1], "/"))
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("no folder has a file %s: %v", file, err)
	}
	for i := range out {
		if out[i] == "" {
			out[i] = "/"
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A form is an issue form.
type form struct {
	Name, Description string
	Labels            []string
	Body              []struct {
		Type, ID   string
		Attributes struct {
			Label, Description, Placeholder, Render, Value string
			Options                                        []any
			Multiple                                       bool
		}
		Validations struct{ Required bool }
	}
}

// TestIssueForms fails where GitHub would not show a form.
func TestIssueForms(t *testing.T) {
	files, err := filepath.Glob(githubFolder + "/ISSUE_TEMPLATE/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			readYAML[struct {
				Blank    bool                                `yaml:"blank_issues_enabled"`
				Contacts []struct{ Name, URL, About string } `yaml:"contact_links"`
			}](t, file)
			continue
		}
		f := readYAML[form](t, file)
		if f.Name == "" || f.Description == "" || names[f.Name] {
			t.Errorf("%s: name %q is empty or another form's, or there is no description", file, f.Name)
		}
		names[f.Name] = true
		fields := map[string]bool{}
		for _, b := range f.Body {
			a := b.Attributes
			switch {
			case b.Type == "markdown":
				if a.Value == "" {
					t.Errorf("%s: markdown without a value", file)
				}
				continue
			case !slices.Contains([]string{"input", "textarea", "dropdown", "checkboxes"}, b.Type):
				t.Errorf("%s: type %q is not known", file, b.Type)
			case b.ID == "" || a.Label == "" || fields[b.ID] || fields[a.Label]:
				t.Errorf("%s: id %q or label %q is missing, or another field's", file, b.ID, a.Label)
			}
			if hasOptions := b.Type == "dropdown" || b.Type == "checkboxes"; hasOptions != (len(a.Options) > 0) {
				t.Errorf("%s: %s, a %s, has %d options", file, b.ID, b.Type, len(a.Options))
			}
			fields[b.ID], fields[a.Label] = true, true
		}
		if len(fields) == 0 {
			t.Errorf("%s: no field: GitHub wants one beside markdown", file)
		}
	}
	if len(names) < 3 {
		t.Errorf("only %d forms are there", len(names))
	}
}

// A workflow has what TestWorkflowsAreBounded asks of one; actionlint asks the rest in
// make lint.
type workflow struct {
	Permissions map[string]string
	Concurrency struct{ Group string }
	Jobs        map[string]struct {
		Timeout   int `yaml:"timeout-minutes"`
		Container image
		Steps     []struct{ Uses, Run string }
	}
}

// An image of a container, which a workflow writes alone or beside options.
type image string

func (i *image) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		return n.Decode((*string)(i))
	}
	var c struct{ Image, Options string }
	err := n.Decode(&c)
	*i = image(c.Image)
	return err
}

// TestWorkflowsAreBounded fails where a workflow has more rights than to read by default,
// a job runs without an end or with another Go than go.mod's, an action is named by what
// can move, or a step runs a target that the Makefile does not have.
func TestWorkflowsAreBounded(t *testing.T) {
	files, err := filepath.Glob(githubFolder + "/workflows/*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("only %d workflows: %v", len(files), err)
	}
	makefile := readText(t, "../../Makefile")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readText(t, "../../go.mod"))[1]
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+\n`)
	target := regexp.MustCompile(`\bmake ([a-z]+)`)
	for _, file := range files {
		text := readText(t, file)
		var w workflow
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" || w.Concurrency.Group == "" {
			t.Errorf("%s: permissions %v: want contents: read, the rest by job; concurrency group %q", file, w.Permissions, w.Concurrency.Group)
		}
		if all := strings.Count(text, "uses: "); all != len(pinned.FindAllString(text, -1)) {
			t.Errorf("%s: an action is not pinned as name@commit # v1.2.3", file)
		}
		for name, job := range w.Jobs {
			if job.Timeout == 0 || job.Timeout > 360 {
				t.Errorf("%s: %s has a timeout of %d minutes: want 1 to 360", file, name, job.Timeout)
			}
			if job.Container != "" && !strings.HasPrefix(string(job.Container), "golang:"+version+"-") {
				t.Errorf("%s: %s runs in %s, go.mod asks for Go %s", file, name, job.Container, version)
			}
			for _, s := range job.Steps {
				for _, m := range target.FindAllStringSubmatch(s.Run, -1) {
					if !strings.Contains(makefile, "\n"+m[1]+":") {
						t.Errorf("%s: %s runs make %s, which the Makefile does not have", file, name, m[1])
					}
				}
			}
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
