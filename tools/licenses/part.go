package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// A part is a module, the standard library, or what the dashboard bundles.
type part struct {
	name    string
	notices []notice
}

// A notice is a file that a licence asks to pass on.
type notice struct {
	file, text string
	licences   []string
}

// permissive are the licences that binaries under Apache-2.0 may hold. Another one is a
// question for a lawyer before it is a line here.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "GooglePatentsFile", "ISC", "MIT", "MPL-2.0"}

// noticeFile matches the names of files with a licence or a notice.
var noticeFile = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents)([-.].*)?$`)

// platforms are those of .goreleaser.yaml; the architecture changes no module.
var platforms = []string{"linux", "darwin", "windows"}

// maxNotice is the size of the largest file that is read.
const maxNotice = 1 << 20

// readParts returns what the command is made of, by name. It returns an error for a part
// without a licence that is recognised, and for one that is not permissive.
func readParts(root string) ([]part, error) {
	goroot, err := output(root, "linux", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	parts := map[string]*part{}
	seen := map[string]bool{}
	if err := addFolder(parts, seen, "Go standard library", strings.TrimSpace(string(goroot)), ""); err != nil {
		return nil, err
	}
	const bundle = "internal/insight/dashboard/dist"
	if err := addFolder(parts, seen, "bundle of the dashboard", filepath.Join(root, bundle), ""); err != nil {
		return nil, err
	}
	for _, os := range platforms {
		if err := addPackages(parts, seen, root, os); err != nil {
			return nil, err
		}
	}
	out := make([]part, 0, len(parts))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := *parts[name]
		if p.licences() == "" {
			return nil, fmt.Errorf("%s: no file of it has a licence that is recognised: look at it, and do not ship it before", name)
		}
		out = append(out, p)
	}
	return out, nil
}

// addPackages adds the files of each folder from a linked package up to its module.
func addPackages(parts map[string]*part, seen map[string]bool, root, platform string) error {
	list, err := output(root, platform, "list", "-deps", "-json=Dir,Module", "./cmd/weir")
	if err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var p struct {
			Dir    string
			Module *struct {
				Path, Dir string
				Main      bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if p.Module == nil || p.Module.Main {
			continue
		}
		rest, err := filepath.Rel(p.Module.Dir, p.Dir)
		if err != nil {
			return err
		}
		for at := filepath.ToSlash(rest); ; at = filepath.Dir(at) {
			if at == "." {
				at = ""
			}
			if err := addFolder(parts, seen, p.Module.Path, p.Module.Dir, at); err != nil {
				return err
			}
			if at == "" {
				break
			}
		}
	}
}

// addFolder adds the files of a folder below dir to a part.
func addFolder(parts map[string]*part, seen map[string]bool, name, dir, below string) error {
	if seen[name+"\x00"+below] {
		return nil
	}
	seen[name+"\x00"+below] = true
	if parts[name] == nil {
		parts[name] = &part{name: name}
	}
	entries, err := os.ReadDir(filepath.Join(dir, below))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !noticeFile.MatchString(e.Name()) {
			continue
		}
		n, err := readNotice(filepath.Join(dir, below, e.Name()))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		n.file = filepath.ToSlash(filepath.Join(below, e.Name()))
		parts[name].notices = append(parts[name].notices, n)
		slices.SortFunc(parts[name].notices, func(a, b notice) int { return strings.Compare(a.file, b.file) })
	}
	return nil
}

// readNotice reads a file and recognises the licences in it.
func readNotice(path string) (notice, error) {
	info, err := os.Stat(path)
	if err != nil {
		return notice{}, err
	}
	if info.Size() > maxNotice {
		return notice{}, fmt.Errorf("%s has %d bytes, at most %d are read", path, info.Size(), maxNotice)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return notice{}, err
	}
	n := notice{text: strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))}
	for _, m := range licensecheck.Scan(text).Match {
		switch {
		case m.IsURL || slices.Contains(n.licences, m.ID):
		case !slices.Contains(permissive, m.ID):
			return notice{}, fmt.Errorf("%s is under %s, which is not among %v", path, m.ID, permissive)
		default:
			n.licences = append(n.licences, m.ID)
		}
	}
	return n, nil
}

// licences returns the licences of all files, by name.
func (p part) licences() string {
	var all []string
	for _, n := range p.notices {
		all = append(all, n.licences...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// output runs the go command for a platform.
func output(dir, platform string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+platform, "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
