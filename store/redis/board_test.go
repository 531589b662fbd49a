package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/testing/boardtest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := openTold(t, "redis://"+r.Addr, nil)
	boardtest.Run(t, s, func(n int) []byte { return fmt.Append(nil, "document ", n) })
	key := s.opt.Prefix + ":{doc}"
	// Documents hold what they hold, and are found again after SCRIPT FLUSH.
	d, err := s.ReadDocument(t.Context(), "doc", 0)
	if err != nil {
		t.Fatal(err)
	}
	odd := "\x00\r\n{}%\xff" + strings.Repeat("x", 100_000)
	d, err = s.SwapDocument(t.Context(), "doc", d.Version, documents.Document{Data: []byte(odd)})
	if err != nil {
		t.Fatal(err)
	}
	r.Do(t, "SCRIPT", "FLUSH")
	if got, err := s.ReadDocument(t.Context(), "doc", 0); err != nil || string(got.Data) != odd || got.Version != d.Version {
		t.Errorf("got %d bytes of version %d, %v", len(got.Data), got.Version, err)
	}
	if got := r.Do(t, "TTL", key); fmt.Sprint(got) != "-1" {
		t.Errorf("the document expires: TTL %v", got)
	}
	// Versions are the server's time, and more than what was there.
	r.Do(t, "SET", key, "0009000000000000old")
	if got, err := s.SwapDocument(t.Context(), "doc", 9_000_000_000_000, documents.Document{Data: []byte("x")}); err != nil || got.Version < 1e15 {
		t.Errorf("got version %d, %v, want the time", got.Version, err)
	}
	r.Do(t, "SET", key, "8000000000000000ahead")
	if got, err := s.SwapDocument(t.Context(), "doc", 8_000_000_000_000_000, documents.Document{Data: []byte("x")}); err != nil || got.Version != 8_000_000_000_000_001 {
		t.Errorf("got version %d, %v, want one more than what was there", got.Version, err)
	}
	// What is no document is said to be none, and is not replaced.
	for _, hostile := range [][]string{
		{"SET", key, "garbage"}, {"SET", key, "12"}, {"SET", key, "-000000000000001x"}, {"SET", key, "0000000000000000x"}, {"SET", key, "9999999999999999x"},
		{"SET", key, "0x00000000000010x"}, {"HSET", key, "a", "b"}, {"RPUSH", key, "a"},
	} {
		r.Do(t, "DEL", key)
		r.Do(t, hostile...)
		if got, err := s.ReadDocument(t.Context(), "doc", 0); !errors.Is(err, documents.ErrDocument) || !strings.Contains(err.Error(), key) {
			t.Errorf("%q: got %+v, %v", hostile, got, err)
		}
		if _, err := s.SwapDocument(t.Context(), "doc", 0, documents.Document{}); !errors.Is(err, documents.ErrDocument) {
			t.Errorf("%q was replaced: %v", hostile, err)
		}
	}
	r.Do(t, "DEL", key)
	r.Do(t, "SET", key, "0000000000000005")
	r.Do(t, "SETRANGE", key, fmt.Sprint(16+documents.MaxDocument), "x")
	if _, err := s.ReadDocument(t.Context(), "doc", 0); !errors.Is(err, documents.ErrDocument) {
		t.Errorf("a document that is too large: %v", err)
	}
}

func TestBoardOfAClusterAndARing(t *testing.T) {
	t.Parallel()
	three := []string{servertest.Redis(t).Addr, servertest.Redis(t).Addr, servertest.Redis(t).Addr}
	s := openTold(t, "redis+ring://"+strings.Join(three, ","), nil)
	boardtest.Run(t, s, func(n int) []byte { return fmt.Append(nil, n) })
	if testing.Short() {
		return
	}
	cluster := servertest.RedisCluster(t, 3)
	c := openTold(t, "redis+cluster://"+cluster[0].Addr, nil)
	boardtest.Run(t, c, func(n int) []byte { return fmt.Append(nil, n) })
}
