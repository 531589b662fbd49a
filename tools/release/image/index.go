package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user and group of the process: a number, so that runAsNonRoot can be
// checked without /etc/passwd.
const user = 65532

// labels returns what the image says about itself.
func labels(d *dist, at time.Time) map[string]string {
	const home = "https://github.com/weirlimit/weir"
	return map[string]string{
		"org.opencontainers.image.title":         "weir",
		"org.opencontainers.image.description":   "Rate limiter for one process or a fleet",
		"org.opencontainers.image.url":           home,
		"org.opencontainers.image.source":        home,
		"org.opencontainers.image.documentation": home + "/tree/main/docs",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.version":       d.version,
		"org.opencontainers.image.revision":      d.commit,
		"org.opencontainers.image.created":       at.UTC().Format(time.RFC3339),
	}
}

// buildIndex returns an index of one image for each architecture.
func buildIndex(d *dist, licences []string, at time.Time) (v1.ImageIndex, error) {
	base, err := baseLayer(licences, at)
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(d.binaries)) {
		img, err := buildImage(d, base, arch, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, labels(d, at)).(v1.ImageIndex), nil
}

// buildImage returns the image of one architecture: the layer that all have in common, and
// the binary in another.
func buildImage(d *dist, base v1.Layer, arch string, at time.Time) (v1.Image, error) {
	program, err := programLayer(d.binaries[arch], at)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: history("certificates, users, licences", at)},
		mutate.Addendum{Layer: program, History: history("weir "+d.version, at)})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: at.UTC()}
	file.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/bin/weir"},
		Env:          []string{"PATH=/bin", "SSL_CERT_FILE=" + certFile},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "6070/tcp": {}},
		Labels:       labels(d, at),
	}
	return mutate.ConfigFile(img, file)
}

func history(what string, at time.Time) v1.History {
	return v1.History{Created: v1.Time{Time: at.UTC()}, CreatedBy: "image", Comment: what}
}

// writeLayout writes the index as an OCI image layout, named by the version, and returns
// its folder.
func writeLayout(d *dist, index v1.ImageIndex) (string, error) {
	folder := filepath.Join(d.dir, "image")
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	return folder, path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": d.version,
		"io.containerd.image.name":          "weir:" + d.version, // the name that docker load and ctr give it
	}))
}
