package filewatch

import (
	"os"
	"path/filepath"
	"strings"
)

// Follow watches the folders in which a change can change what paths hold, and no others
// any more: those of files written in place and renamed over, of the ..data of a Kubernetes
// ConfigMap, and of any other symbolic link on the way to a file. A path that is not there
// is seen when it comes, an empty one is none. What cannot be watched is polled.
//
// It is to be called before each look: links may lead elsewhere by then, and a folder that
// was removed and made anew has lost its watch.
func (w *Watcher) Follow(paths ...string) {
	if w.Notify == nil {
		return
	}
	want := map[string]bool{}
	for _, p := range paths {
		for _, folder := range foldersOf(p) {
			want[folder] = true
		}
	}
	for folder := range w.folders {
		if !want[folder] {
			// It may be gone, and its watch with it.
			_ = w.Notify.Remove(folder)
			delete(w.folders, folder)
		}
	}
	for folder := range want {
		if w.Notify.Add(folder) == nil {
			w.folders[folder] = true
		}
	}
}

// maxLinks bounds how many symbolic links are followed on the way to a file,
// as the system does.
const maxLinks = 40

// foldersOf returns the folders in which a change can change what path
// holds: the real folder at the end, or that of the file, and each folder that holds a
// symbolic link on the way.
func foldersOf(path string) (folders []string) {
	const separator = string(filepath.Separator)
	rest, err := filepath.Abs(path)
	if err != nil || path == "" {
		return nil
	}
	at := separator
	for links := 0; rest != "" && links <= maxLinks; {
		step, after, _ := strings.Cut(strings.TrimLeft(rest, separator), separator)
		next := filepath.Join(at, step)
		rest = after
		info, err := os.Lstat(next)
		switch {
		case err == nil && info.IsDir():
			at = next
			continue
		case err != nil || info.Mode()&os.ModeSymlink == 0:
			// A file, or nothing yet: its coming is what matters.
			return append(folders, at)
		}
		folders = append(folders, at)
		target, err := os.Readlink(next)
		if err != nil {
			return folders
		}
		if filepath.IsAbs(target) {
			at = separator
		}
		rest = target + separator + rest
		links++
	}
	return append(folders, at)
}
