package overlay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/regular"
)

// File is a board of one process in files, so that a restart keeps it: the
// document "overlay" in the file of the path itself, "overlay.audit" in path.audit. A file is replaced as a whole, and read only when the board is opened.
// Safe for concurrent use.
type File struct {
	path string

	mu  sync.Mutex
	all map[string]documents.Document // by what is behind the path
}

var _ documents.Board = (*File)(nil)

// parts are what is kept in files, by what is behind the path, and what reads it.
var parts = map[string]func([]byte) error{
	"":       func(data []byte) error { _, err := DecodeEntries(data); return err },
	".audit": func(data []byte) error { _, err := decodeChanges(data); return err },
}

// OpenFile returns the board in the file at path and those beside it, which need
// not be there yet; their folder must be.
func OpenFile(path string) (*File, error) {
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	b := &File{path: path, all: map[string]documents.Document{}}
	for part, check := range parts {
		data, err := regular.ReadPrefix(path+part, documents.MaxDocument+1)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := check(data); err != nil {
			return nil, fmt.Errorf("%s: %w: repair the file or remove it", path+part, err)
		}
		b.all[part] = documents.Document{Version: 1, Data: data}
	}
	return b, nil
}

// CheckWritable returns an error where a change could not be kept now.
func (b *File) CheckWritable() error {
	f, err := createTemporary(b.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// fileSuffix returns what is behind the path of the document of a name.
func fileSuffix(name string) (string, error) {
	p := filepath.Ext(name)
	if parts[p] == nil {
		return "", fmt.Errorf("overlay: no file for a document %q", name)
	}
	return p, nil
}

// ReadDocument implements documents.Board.
func (b *File) ReadDocument(_ context.Context, name string, known int64) (documents.Document, error) {
	p, err := fileSuffix(name)
	if err != nil {
		return documents.Document{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.all[p]
	d.Now = time.Now().UnixMicro()
	if known == d.Version {
		d.Data = nil
	}
	return d, nil
}

// SwapDocument implements documents.Board.
func (b *File) SwapDocument(_ context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	if len(d.Data) > documents.MaxDocument {
		return documents.Document{}, fmt.Errorf("%w: %d bytes, more than %d", documents.ErrDocument, len(d.Data), documents.MaxDocument)
	}
	p, err := fileSuffix(name)
	if err != nil {
		return documents.Document{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if was != b.all[p].Version {
		return documents.Document{}, documents.ErrChanged
	}
	if err := replaceFile(b.path+p, d.Data); err != nil {
		return documents.Document{}, &FileError{err}
	}
	d = documents.Document{Version: max(was, d.Version) + 1, Data: d.Data}
	b.all[p] = d
	d.Now = time.Now().UnixMicro()
	return d, nil
}

// replaceFile replaces the file, so that a crash leaves the old one or the new one.
func replaceFile(path string, data []byte) (err error) {
	f, err := createTemporary(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if e := os.Remove(f.Name()); !errors.Is(e, fs.ErrNotExist) { // it has its name
				err = errors.Join(err, e)
			}
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func createTemporary(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
}

// syncFolder makes a new name in a folder outlast a power cut.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
