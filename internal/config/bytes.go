package config

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weirlimit/weir/internal/bytesize"
)

// Bytes is a number of bytes, written as "4096", "64KiB", "1.5MB" or "2GiB".
type Bytes int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	s, size := bytesize.CutUnit(string(text))
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= 0) || n*float64(size) >= math.MaxInt64 {
		return fmt.Errorf("%q is not a number of bytes such as 64KiB or 512MiB", text)
	}
	*b = Bytes(n * float64(size))
	return nil
}

// String writes b in the largest binary unit that divides it.
func (b Bytes) String() string { return bytesize.Format(int64(b)) }

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
