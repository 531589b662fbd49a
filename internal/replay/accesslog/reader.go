package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	bufferSize = 256 << 10
	// sniffed is how much of a log is looked at for its format.
	sniffed = 64 << 10
	// maxFaults is how many bad lines are remembered.
	maxFaults = 5
	// maxWindow bounds the memory that a zstd stream asks for.
	maxWindow = 128 << 20
)

// Reader reads a log, compressed by gzip or zstd or not at all.
type Reader struct {
	name   string
	format Format
	in     *bufio.Reader
	close  func()

	lines, bad int64
	faults     []Fault
}

// Fault is a line that could not be read.
type Fault struct {
	Line int64  `json:"line"`
	Err  string `json:"error"`
}

// NewReader returns a reader of r, which errors call by name. A nil format is
// found out from the first lines. The caller closes it, and r itself.
func NewReader(r io.Reader, name string, format Format) (*Reader, error) {
	out := &Reader{name: name, format: format, in: bufio.NewReaderSize(r, bufferSize), close: func() {}}
	if err := out.decompress(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if format == nil {
		if err := out.detectFormat(); err != nil {
			out.close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// decompress looks at the magic number of what is read.
func (r *Reader) decompress() error {
	magic, err := r.in.Peek(4)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r.in)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		r.in = bufio.NewReaderSize(z, bufferSize)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
		r.close = z.Close
		r.in = bufio.NewReaderSize(z, bufferSize)
	}
	return nil
}

func (r *Reader) detectFormat() error {
	head, err := r.in.Peek(sniffed)
	if err != nil && err != io.EOF {
		return err
	}
	if len(head) == 0 {
		r.format = &Combined{} // of an empty log
		return nil
	}
	lines := bytes.Split(head, []byte("\n"))
	if len(head) == sniffed && len(lines) > 1 {
		lines = lines[:len(lines)-1] // the last is not whole
	}
	for i := range lines {
		lines[i] = bytes.TrimSuffix(lines[i], []byte("\r"))
	}
	r.format, err = DetectFormat(lines)
	return err
}

// NextLine reads the next good line into l. It returns io.EOF at the end, and else an
// error only when reading failed: bad lines are counted, and left out.
func (r *Reader) NextLine(l *Line) error {
	for {
		b, err := r.in.ReadSlice('\n')
		if len(b) == 0 && err != nil {
			return r.locateError(err)
		}
		r.lines++
		if errors.Is(err, bufio.ErrBufferFull) {
			if err := r.skipLine(); err != nil {
				return r.locateError(err)
			}
			r.noteBadLine(errLong)
			continue
		}
		if err != nil && err != io.EOF {
			return r.locateError(err)
		}
		b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
		switch {
		case len(b) == 0:
			continue
		case len(b) > MaxLine:
			r.noteBadLine(errLong)
			continue
		}
		if err := r.format.Parse(b, l); err != nil {
			r.noteBadLine(err)
			continue
		}
		return nil
	}
}

func (r *Reader) locateError(err error) error {
	if err == io.EOF {
		return err
	}
	return fmt.Errorf("%s: after line %d: %w", r.name, r.lines, err)
}

// skipLine drops the rest of a line that does not fit into the buffer.
func (r *Reader) skipLine() error {
	for {
		_, err := r.in.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF {
				return nil // the next read says so again
			}
			return err
		}
	}
}

func (r *Reader) noteBadLine(err error) {
	r.bad++
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, Fault{r.lines, err.Error()})
	}
}

// Lines returns how many lines were read, and how many of them were bad.
func (r *Reader) Lines() (all, bad int64) { return r.lines, r.bad }

// Faults returns the first bad lines.
func (r *Reader) Faults() []Fault { return r.faults }

// Close frees what decompressing took.
func (r *Reader) Close() { r.close() }
