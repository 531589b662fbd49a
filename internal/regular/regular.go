// Package regular reads files whose names come from a configuration: regular ones
// only, and no more of them than they may hold. A pipe that stands where a file is
// expected would block its reader for ever, and every reload with it.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is the cause of the error for a pipe, a socket, a device or a
// directory.
var ErrNotRegular = errors.New("not a regular file")

// Read returns the content of a file. It is an error if the file is larger than
// most bytes, or no regular file. Links are followed.
func Read(path string, most int64) ([]byte, error) {
	data, err := ReadPrefix(path, most+1)
	if err == nil && int64(len(data)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return data, err
}

// ReadPrefix returns the first n bytes of a file, or all of it if it has fewer.
func ReadPrefix(path string, n int64) ([]byte, error) {
	// Without O_NONBLOCK opening a pipe waits for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	// Room for all of it at once: growing would take three times as much.
	data := bytes.NewBuffer(make([]byte, 0, min(info.Size(), n)+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, n))
	return data.Bytes(), err
}
