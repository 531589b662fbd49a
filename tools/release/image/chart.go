package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// pinned are the lines of the chart that a release fills in, each of which must be there
// once.
var pinned = map[string][]struct{ line, with string }{
	"Chart.yaml":  {{`version: .*`, "version: %[1]s"}, {`appVersion: .*`, "appVersion: %[1]q"}},
	"values.yaml": {{`  digest: ""`, "  digest: %[2]s"}},
}

// chart writes the Helm chart in a folder as an archive that helm installs, and returns
// its path. Its version is that of the release, and it names the image by its digest.
func (d *dist) chart(folder, digest string, at time.Time) (string, error) {
	version := strings.TrimPrefix(d.version, "v")
	path := filepath.Join(d.dir, "weir-"+version+".tgz")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	zipped := gzip.NewWriter(f)
	w := tar.NewWriter(zipped)
	err = addFolder(w, folder, at, func(name string, data []byte) (string, []byte, error) {
		for _, p := range pinned[name] {
			line := regexp.MustCompile(`(?m)^` + p.line + `$`)
			if n := len(line.FindAll(data, -1)); n != 1 {
				return "", nil, fmt.Errorf("%s/%s has %d lines like %q: one is to be filled in", folder, name, n, p.line)
			}
			data = line.ReplaceAllLiteral(data, fmt.Appendf(nil, p.with, version, digest))
		}
		return "weir/" + name, data, nil
	})
	if err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if err := zipped.Close(); err != nil {
		return "", err
	}
	return path, f.Close()
}
