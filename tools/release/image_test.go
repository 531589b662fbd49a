package release

import (
	"archive/tar"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// imageUser is whom the image runs as.
const imageUser = 65532

// TestImage makes the image of two architectures, the second from a stand-in, and runs
// the first in a root that nothing can be written to.
func TestImage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	index := makeImage(t, folder)
	digest, err := index.Digest()
	check(t, err)
	if again, err := makeImage(t, t.TempDir()).Digest(); err != nil || again != digest {
		t.Errorf("made again it is %s, not %s: %v", again, digest, err)
	}
	checkChart(t, filepath.Dir(only(t, folder, "*_oci.tar")), digest.String())
	manifest, err := index.IndexManifest()
	check(t, err)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		check(t, err)
		config, err := img.ConfigFile()
		check(t, err)
		c := config.Config
		if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/bin/weir"}) || config.OS+"/"+config.Architecture != m.Platform.String() {
			t.Errorf("%s: %+v", m.Platform, config)
		}
		checkLabels(t, c.Labels)
	}
	if strings.Join(platforms, " ") != "linux/amd64 linux/arm64" {
		t.Errorf("platforms %v", platforms)
	}
	checkLabels(t, manifest.Annotations)
	img, err := index.Image(manifest.Manifests[0].Digest)
	check(t, err)
	runImage(t, img)
}

// makeImage makes an image of the binary in dist and of a stand-in for another
// architecture, and returns its index, which the archive has too.
func makeImage(t *testing.T, folder string) v1.ImageIndex {
	t.Helper()
	standIn, sums := filepath.Join(folder, "arm64"), filepath.Join(folder, "checksums.txt")
	check(t, os.WriteFile(standIn, []byte("a stand-in"), 0o755))
	check(t, os.WriteFile(sums, nil, 0o644))
	check(t, os.WriteFile(filepath.Join(folder, "metadata.json"), []byte(read(t, dist+"/metadata.json")), 0o644))
	type artifact map[string]string
	artifacts, err := json.Marshal([]artifact{
		{"type": "Binary", "path": standIn, "goos": "linux", "goarch": "arm64"},
		{"type": "Binary", "path": standIn, "goos": "darwin", "goarch": "arm64"},
		{"type": "Binary", "path": only(t, dist, "weir_linux_amd64*/weir"), "goos": "linux", "goarch": "amd64"},
		{"type": "Checksum", "path": sums},
	})
	check(t, err)
	check(t, os.WriteFile(filepath.Join(folder, "artifacts.json"), artifacts, 0o644))
	run(t, filepath.Join(root, "bin/image"), "-dist", folder, "-created", "2026-01-02T15:04:05Z", "-chart", filepath.Join(root, "deploy/helm/weir"), filepath.Join(root, "LICENSE"), filepath.Join(root, "bin/release/THIRD-PARTY"))
	archive := only(t, folder, "*_oci.tar")
	for _, file := range []string{archive, only(t, folder, "weir-*.tgz")} {
		if !strings.Contains(read(t, sums), "  "+filepath.Base(file)+"\n") {
			t.Errorf("checksums: %q", read(t, sums))
		}
	}
	unpacked := filepath.Join(folder, "unpacked")
	check(t, os.Mkdir(unpacked, 0o755))
	run(t, "tar", "-xf", archive, "-C", unpacked)
	outer, err := layout.ImageIndexFromPath(unpacked)
	check(t, err)
	manifest, err := outer.IndexManifest()
	check(t, err)
	if len(manifest.Manifests) != 1 || !strings.HasPrefix(manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"], "v") {
		t.Fatalf("%+v", manifest.Manifests)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	check(t, err)
	return index
}

// checkChart checks that the chart in a folder is that of the tree, of the version of the
// release, and that it names the image by its digest.
func checkChart(t *testing.T, folder, digest string) {
	t.Helper()
	run(t, "tar", "-xzf", only(t, folder, "weir-*.tgz"), "-C", folder)
	var metadata struct{ Version string }
	check(t, json.Unmarshal([]byte(read(t, dist+"/metadata.json")), &metadata))
	var changed []string
	for line := range strings.Lines(diff(t, filepath.Join(root, "deploy/helm/weir"), filepath.Join(folder, "weir"))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "> ") || strings.HasPrefix(line, "Only in") {
			changed = append(changed, line)
		}
	}
	want := []string{"> version: " + metadata.Version, `> appVersion: "` + metadata.Version + `"`, "> digest: " + digest}
	if strings.Join(strings.Fields(strings.Join(changed, " ")), " ") != strings.Join(want, " ") {
		t.Errorf("the chart differs from deploy/helm/weir by %q, want %q", changed, want)
	}
}

// diff returns in what two folders differ.
func diff(t *testing.T, a, b string) string {
	t.Helper()
	out, err := exec.Command("diff", "-r", a, b).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		t.Fatal(err)
	}
	return string(out)
}

func checkLabels(t *testing.T, labels map[string]string) {
	t.Helper()
	for label, want := range map[string]string{
		"created":  "2026-01-02T15:04:05Z",
		"licenses": "Apache-2.0",
		"revision": strings.TrimSpace(run(t, "git", "-C", root, "rev-parse", "HEAD")),
		"source":   "https://github.com/weirlimit/weir",
		"title":    "weir",
	} {
		if got := labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
}

// runImage unpacks an image and runs its entry point, as root in a chroot.
func runImage(t *testing.T, img v1.Image) {
	at := t.TempDir()
	unpack(t, img, at)
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM([]byte(read(t, at+"/etc/ssl/certs/ca-certificates.crt"))) {
		t.Error("the image has no certificate authorities")
	}
	for _, file := range []string{"LICENSE", "bin/release/THIRD-PARTY"} {
		if text := read(t, filepath.Join(at, "usr/share/doc/weir", filepath.Base(file))); len(text) < 1000 || text != read(t, filepath.Join(root, file)) {
			t.Errorf("the image has %d bytes of %s", len(text), file)
		}
	}
	command := func(args ...string) *exec.Cmd {
		if os.Geteuid() != 0 {
			return exec.Command(at+args[0], args[1:]...)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.SysProcAttr, cmd.Err = "/", &syscall.SysProcAttr{Chroot: at}, nil
		asUser(cmd, imageUser)
		return cmd
	}
	out, err := command("/bin/weir", "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "weir v") {
		t.Errorf("version: %v %s", err, out)
	}
	out, err = command("/bin/ratelimit", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Usage: weir ratelimit") {
		t.Errorf("ratelimit: %v %s", err, out)
	}
	serve(t, command("/bin/weir", "serve", "--limit", "9/minute by client_id"))
}

// unpack writes the files of an image into a folder, in which nothing may be written.
func unpack(t *testing.T, img v1.Image, at string) {
	t.Helper()
	content := mutate.Extract(img)
	defer content.Close()
	var folders []string
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		if h.Uid != 0 && h.Uid != imageUser {
			t.Errorf("%s is of user %d", h.Name, h.Uid)
		}
		path := filepath.Join(at, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			check(t, os.MkdirAll(path, 0o755))
			folders = append(folders, path)
		case tar.TypeSymlink:
			check(t, os.Symlink(h.Linkname, path))
		default:
			data, err := io.ReadAll(r)
			check(t, err)
			check(t, os.WriteFile(path, data, h.FileInfo().Mode().Perm()))
		}
	}
	for _, f := range append(folders, at) {
		check(t, os.Chmod(f, 0o555))
		t.Cleanup(func() { os.Chmod(f, 0o755) })
	}
	for dir := filepath.Dir(at); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755))
	}
}
