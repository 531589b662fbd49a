package memory_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/boardtest"
	"github.com/weirlimit/weir/store/memory"
)

func TestBoard(t *testing.T) {
	s := memory.New(memory.Options{})
	boardtest.Run(t, s, func(n int) []byte { return fmt.Append(nil, "document ", n) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadDocument(t.Context(), "doc", 0); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("a closed store was read: %v", err)
	}
}
