package shed

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/period"
)

// Share is a percentage, 0 to 100, written "20%". The zero Share is not given,
// which differs from 0 %.
type Share struct{ plusOne int8 }

// Percent returns a share of n hundredths; n out of range is cut to 0 or 100.
func Percent(n int) Share { return Share{int8(min(max(n, 0), 100) + 1)} }

// parseShare reads "20%".
func parseShare(text string) (Share, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(clipText(text)), "%")
	digits = strings.TrimSpace(digits)
	if !ok || digits == "" {
		return Share{}, fmt.Errorf("%q is not a share: write it like 20%%", clipText(text))
	}
	n, err := period.Count(digits)
	if err != nil || n < 0 || n > 100 {
		return Share{}, fmt.Errorf("%q is not a share: it must be a whole percentage between 0%% and 100%%", clipText(text))
	}
	return Percent(int(n)), nil
}

// IsZero reports whether no share is given.
func (s Share) IsZero() bool { return s == (Share{}) }

// orPercent returns s, or what stands for it where it is not given.
func (s Share) orPercent(percent int) Share {
	if s.IsZero() {
		return Percent(percent)
	}
	return s
}

// percent returns the share in hundredths; 0 if it is not given.
func (s Share) percent() int64 { return int64(max(s.plusOne-1, 0)) }

// String returns the share as parseShare reads it, empty if it is not given.
func (s Share) String() string {
	if s.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d%%", s.percent())
}

// MarshalText implements encoding.TextMarshaler.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = parseShare(string(text))
	return err
}
