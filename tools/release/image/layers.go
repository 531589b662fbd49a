package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certFile is where crypto/x509 looks first on Linux.
const certFile = "/etc/ssl/certs/ca-certificates.crt"

// docs is the folder of the licences.
const docs = "usr/share/doc/weir/"

// baseLayer holds what every architecture needs: certificate authorities, the name of
// the user, a place for temporary files and one for what is stored, and the licences.
func baseLayer(licences []string, at time.Time) (v1.Layer, error) {
	certs, err := authorities()
	if err != nil {
		return nil, err
	}
	entries := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755},
		{Name: "etc/group", Mode: 0o644},
		{Name: "etc/passwd", Mode: 0o644},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "etc/ssl/certs/", Mode: 0o755},
		{Name: certFile[1:], Mode: 0o644},
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "usr/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "usr/share/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "usr/share/doc/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: docs, Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "var/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "var/lib/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "var/lib/weir/", Mode: 0o700, Uid: user, Gid: user},
	}
	contents := map[string][]byte{
		"etc/group":  fmt.Appendf(nil, "root:x:0:\nweir:x:%d:\n", user),
		"etc/passwd": fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nweir:x:%[1]d:%[1]d:weir:/var/lib/weir:/sbin/nologin\n", user),
		certFile[1:]: certs,
	}
	for _, file := range licences {
		name := docs + filepath.Base(file)
		if contents[name], err = os.ReadFile(file); err != nil {
			return nil, err
		}
		entries = append(entries, tar.Header{Name: name, Mode: 0o644})
	}
	return layer(entries, contents, at)
}

// programLayer holds the binary under both of its names.
func programLayer(binary string, at time.Time) (v1.Layer, error) {
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	return layer([]tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		{Typeflag: tar.TypeSymlink, Name: "bin/ratelimit", Linkname: "weir", Mode: 0o777},
		{Name: "bin/weir", Mode: 0o755},
	}, map[string][]byte{"bin/weir": data}, at)
}

// layer returns a layer of the entries, all of one time.
func layer(entries []tar.Header, contents map[string][]byte, at time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h.Size, h.ModTime = int64(len(contents[h.Name])), at
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(contents[h.Name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
}

// authorities returns the roots of Mozilla's program in PEM, without those that it
// trusts for a part of the certificates only, which PEM cannot say.
func authorities() ([]byte, error) {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
