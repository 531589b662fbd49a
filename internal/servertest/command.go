package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	args := append([]string{"build", "-buildvcs=false", "-o", path}, flags...)
	if out, err := exec.Command("go", append(args, "github.com/weirlimit/weir/cmd/weir")...).CombinedOutput(); err != nil {
		clean()
		return "", nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, clean, nil
}
