package servertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Command builds the weir command, with further flags of go build, in a folder of
// its own. clean removes the folder.
func Command(flags ...string) (path string, clean func(), err error) {
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
