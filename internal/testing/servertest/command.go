package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Command builds the weir command, with further flags of go build, in a folder of
// its own. clean removes the folder. Servers that the test starts without saying
// where they speak gRPC do so at a port of their own, so that there can be many.
func Command(flags ...string) (path string, clean func(), err error) {
	if err := os.Setenv("WEIR_GRPC", "127.0.0.1:0"); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		return "", nil, err
	}
	clean = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, "weir")
	build := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", path}, flags...), module+"/cmd/weir")...)
	if build.Dir, err = folder(); err != nil {
		clean()
		return "", nil, err
	}
	if out, err := build.CombinedOutput(); err != nil {
		clean()
		return "", nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, clean, nil
}

const module = "github.com/weirlimit/weir"

// folder returns where the module of the command is: tests with a go.mod of their
// own do not name all that the command needs.
func folder() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
