package arch

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// schemaAddress is where releases have the JSON Schemas of docs/reference.
const schemaAddress = "https://github.com/weirlimit/weir/releases/latest/download/"

var namesSchema = regexp.MustCompile(`# yaml-language-server: \$schema=(\S+)`)

// TestSchemasResolve: a schema is called by the address at which a release has it, releases
// hold all of them, and files and pages that name one name that address.
func TestSchemasResolve(t *testing.T) {
	files, err := filepath.Glob("../../cmd/weir/schema/*.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, file := range files {
		var schema struct {
			ID string `json:"$id"`
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if want := schemaAddress + filepath.Base(file); schema.ID != want {
			t.Errorf("%s: $id is %q, want %q", file, schema.ID, want)
		}
		addresses = append(addresses, schema.ID)
	}
	if len(addresses) < 2 {
		t.Fatalf("schemas: %q", addresses)
	}

	var release struct {
		Archives []struct {
			Files []struct {
				Source string `yaml:"src"`
			} `yaml:"files"`
		} `yaml:"archives"`
		Packages []struct {
			Contents []struct {
				Source string `yaml:"src"`
			} `yaml:"contents"`
		} `yaml:"nfpms"`
		Checksum struct {
			Extra []struct {
				Glob string `yaml:"glob"`
			} `yaml:"extra_files"`
		} `yaml:"checksum"`
		Release struct {
			Extra []struct {
				Glob string `yaml:"glob"`
			} `yaml:"extra_files"`
		} `yaml:"release"`
	}
	data, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &release); err != nil {
		t.Fatal(err)
	}
	lists := map[string][]string{}
	for _, a := range release.Archives {
		for _, f := range a.Files {
			lists["archives"] = append(lists["archives"], f.Source)
		}
	}
	for _, p := range release.Packages {
		for _, f := range p.Contents {
			lists["packages"] = append(lists["packages"], f.Source)
		}
	}
	for _, f := range release.Checksum.Extra {
		lists["checksum"] = append(lists["checksum"], f.Glob)
	}
	for _, f := range release.Release.Extra {
		lists["release"] = append(lists["release"], f.Glob)
	}
	for _, list := range []string{"archives", "packages", "checksum", "release"} {
		for _, file := range files {
			name := strings.TrimPrefix(filepath.ToSlash(file), "../../")
			holds := func(glob string) bool { ok, err := path.Match(glob, name); return ok && err == nil }
			if !slices.ContainsFunc(lists[list], holds) {
				t.Errorf(".goreleaser.yaml: %s do not hold %s", list, name)
			}
		}
	}

	named := map[string]bool{}
	for _, glob := range []string{"docs/reference/*.md", "docs/reference/generated/*.md", "examples/*.yaml", "examples/gateway/*.yaml", "deploy/package/*.yaml"} {
		found, err := filepath.Glob("../../" + glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range namesSchema.FindAllStringSubmatch(string(data), -1) {
				if named[m[1]+path.Ext(file)] = true; !slices.Contains(addresses, m[1]) {
					t.Errorf("%s names %s, which no release has", file, m[1])
				}
			}
		}
	}
	for _, a := range addresses {
		if !named[a+".md"] || !named[a+".yaml"] {
			t.Errorf("no page or no example names %s", a)
		}
	}
}
