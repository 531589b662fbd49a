package event

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Many writers and a reader: every sighting is read once, in the order of its
// writer, or was counted as one that found the ring full.
func TestRingLosesNothingSilently(t *testing.T) {
	const writers, each = 4, 20_000
	r := newRing(64)
	var wrote, full, left atomic.Int64
	left.Store(writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			defer left.Add(-1)
			for i := range each {
				s, at := r.claimSlot()
				if s == nil {
					full.Add(1)
					runtime.Gosched()
					continue
				}
				s.hash, s.now = uint64(w), int64(i)
				s.setKey("writer")
				s.commit(at)
				wrote.Add(1)
			}
		})
	}
	var read int64
	last := [writers]int64{-1, -1, -1, -1}
	for {
		over := left.Load() == 0
		s := r.nextSighting()
		if s == nil {
			if over {
				break
			}
			runtime.Gosched()
			continue
		}
		if s.now <= last[s.hash] || string(s.key()) != "writer" {
			t.Fatalf("writer %d: %d (%q) after %d", s.hash, s.now, s.key(), last[s.hash])
		}
		last[s.hash] = s.now
		r.freeSlot()
		read++
	}
	wg.Wait()
	if read != wrote.Load() || read+full.Load() != writers*each {
		t.Errorf("%d written, %d read, %d found the ring full, of %d", wrote.Load(), read, full.Load(), writers*each)
	}
	if full.Load() == 0 {
		t.Log("the ring was never full")
	}
}

func TestRingIsBounded(t *testing.T) {
	r := newRing(64)
	for i := range 64 {
		s, at := r.claimSlot()
		if s == nil {
			t.Fatalf("full after %d", i)
		}
		s.commit(at)
	}
	if s, _ := r.claimSlot(); s != nil {
		t.Error("there was room for one more")
	}
	r.nextSighting()
	r.freeSlot()
	if s, _ := r.claimSlot(); s == nil {
		t.Error("a place that was read is not free")
	}
}

// A slot that was claimed and is not committed yet holds back those behind it.
func TestRingKeepsOrder(t *testing.T) {
	r := newRing(64)
	first, at := r.claimSlot()
	second, atSecond := r.claimSlot()
	second.commit(atSecond)
	if r.nextSighting() != nil {
		t.Error("read past one that was not committed")
	}
	first.commit(at)
	if r.nextSighting() == nil {
		t.Error("nothing to read")
	}
}
