package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// File is a board of one process and one document, in a file, so that a restart
// keeps it. The file is replaced as a whole, and read only when it is opened.
// Safe for concurrent use.
type File struct {
	path string

	mu      sync.Mutex
	version int64
	data    []byte
}

var _ weir.Board = (*File)(nil)

// OpenFile returns the board in the file at path, which need not be there yet;
// its folder must be.
func OpenFile(path string) (*File, error) {
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	b := &File{path: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if b.data, err = io.ReadAll(io.LimitReader(f, weir.MaxDocument+1)); err != nil {
		return nil, err
	}
	if _, err := Decode(b.data); err != nil {
		return nil, fmt.Errorf("%s: %w: repair the file or remove it", path, err)
	}
	b.version = 1
	return b, nil
}

// ReadDocument implements weir.Board.
func (b *File) ReadDocument(_ context.Context, _ string, known int64) (weir.Document, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := weir.Document{Version: b.version, Now: time.Now().UnixMicro()}
	if known != b.version {
		d.Data = b.data
	}
	return d, nil
}

// SwapDocument implements weir.Board.
func (b *File) SwapDocument(_ context.Context, _ string, was int64, d weir.Document) (weir.Document, error) {
	if len(d.Data) > weir.MaxDocument {
		return weir.Document{}, fmt.Errorf("%w: %d bytes, more than %d", weir.ErrDocument, len(d.Data), weir.MaxDocument)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if was != b.version {
		return weir.Document{}, weir.ErrChanged
	}
	if err := b.write(d.Data); err != nil {
		return weir.Document{}, err
	}
	b.version, b.data = max(was, d.Version)+1, d.Data
	return weir.Document{Version: b.version, Now: time.Now().UnixMicro(), Data: d.Data}, nil
}

// write replaces the file, so that a crash leaves the old one or the new one.
func (b *File) write(data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(b.path), filepath.Base(b.path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), b.path)
}
