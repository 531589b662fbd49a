package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/testing/bubble"
)

// However many faults there are of whatever kinds: each message is logged once in every
// second in which it is reported, and one that others flood is not lost.
func TestFamilyNoMessageHidesAnother(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const seconds, kinds = 10, 5
		var log bytes.Buffer
		f := faults.New(slog.New(slog.NewTextHandler(&log, nil)))
		for range seconds {
			var all sync.WaitGroup
			for kind := range kinds {
				all.Go(func() {
					for range 1 + 100*kind {
						f.Report(fmt.Sprint("fault ", kind), errors.New("refused"))
					}
				})
			}
			all.Wait()
			if !f.IsDue() || f.IsDue() {
				t.Error("whoever logs in another way has no turn of his own, or two")
			}
			time.Sleep(time.Second)
		}
		for kind := range kinds {
			if n := strings.Count(log.String(), fmt.Sprintf("level=ERROR msg=\"fault %d\" err=refused\n", kind)); n != seconds {
				t.Errorf("fault %d is logged %d times in %d seconds", kind, n, seconds)
			}
		}
	})
}
