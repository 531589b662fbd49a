package main

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A dist is what goreleaser left in its folder.
type dist struct {
	dir       string
	version   string
	commit    string
	binaries  map[string]string // Linux binaries by architecture
	checksums string            // file of the checksums
}

// readDist reads metadata.json and artifacts.json. It returns an error if they name no
// Linux binary or no file of checksums.
func readDist(dir string) (*dist, error) {
	var metadata struct{ Version, Commit string }
	var artifacts []struct{ Type, Path, Goos, Goarch string }
	for name, into := range map[string]any{"metadata.json": &metadata, "artifacts.json": &artifacts} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	d := &dist{dir: dir, version: "v" + metadata.Version, commit: metadata.Commit, binaries: map[string]string{}}
	for _, a := range artifacts {
		switch {
		case a.Type == "Binary" && a.Goos == "linux":
			d.binaries[a.Goarch] = a.Path
		case a.Type == "Checksum":
			d.checksums = a.Path
		}
	}
	if len(d.binaries) == 0 || d.checksums == "" {
		return nil, fmt.Errorf("artifacts.json in %s names %d Linux binaries and checksums in %q: run goreleaser first", dir, len(d.binaries), d.checksums)
	}
	return d, nil
}

// archive writes a folder as a tar file, in the order of names and of one time, and
// returns its path.
func (d *dist) archive(folder string, at time.Time) (string, error) {
	path := filepath.Join(d.dir, "weir_"+strings.TrimPrefix(d.version, "v")+"_oci.tar")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := addFolder(w, folder, at, func(name string, data []byte) (string, []byte, error) { return name, data, nil }); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return path, f.Close()
}

// addFolder adds the files of a folder, in the order of names and of one time. as says by
// which name, and with what content.
func addFolder(w *tar.Writer, folder string, at time.Time, as func(name string, data []byte) (string, []byte, error)) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if name, data, err = as(filepath.ToSlash(name), data); err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: at}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
}

// addChecksum adds a file to the checksums, in the place of an earlier line about it.
func (d *dist) addChecksum(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	was, err := os.ReadFile(d.checksums)
	if err != nil {
		return err
	}
	name := "  " + filepath.Base(path) + "\n"
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(string(was))), func(l string) bool { return strings.HasSuffix(l, name) })
	lines = append(lines, fmt.Sprintf("%x%s", sum.Sum(nil), name))
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(d.checksums, []byte(strings.Join(lines, "")), 0o644)
}
