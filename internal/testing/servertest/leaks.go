package servertest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Leaks returns what goleak finds, when it still does after a while: on a busy
// machine goroutines that are about to end take their time.
func Leaks(opt ...goleak.Option) error {
	for end := time.Now().Add(time.Minute); ; {
		if err := goleak.Find(opt...); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// NoLeaks fails the test when goroutines are left.
func NoLeaks(t testing.TB, opt ...goleak.Option) {
	t.Helper()
	if err := Leaks(opt...); err != nil {
		t.Error(err)
	}
}

// Main is a package's TestMain that fails when goroutines are left after its
// tests.
func Main(m *testing.M, opt ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := Leaks(opt...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
