package main

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/lab/bench/load"
)

func TestPlanOpenGivesEachItsTurns(t *testing.T) {
	const perTurn = 1000
	p := planOpen(perTurn, 1)
	if want := perTurn/2 + (2*turnPairs+turnsShared)*perTurn; len(p.order) != want {
		t.Fatalf("%d requests, want %d", len(p.order), want)
	}
	firsts := [2]int{}
	for _, pair := range p.separate {
		for to, turn := range pair {
			if turn[1]-turn[0] != 9*perTurn/10 {
				t.Errorf("%d of a turn count, want nine tenths of %d", turn[1]-turn[0], perTurn)
			}
			for i := turn[0] - perTurn/10; i < turn[1]; i++ {
				if int(p.order[i]) != to {
					t.Fatalf("request %d goes to %d in the turn of %d", i, p.order[i], to)
				}
			}
		}
		if d := pair[0][0] - pair[1][0]; d != perTurn && d != -perTurn {
			t.Errorf("the turns of a pair begin %d requests apart, want %d", d, perTurn)
		}
		if pair[1][0] < pair[0][0] {
			firsts[1]++
		} else {
			firsts[0]++
		}
	}
	for _, turn := range p.paired {
		share := 0
		for _, to := range p.order[turn[0]:turn[1]] {
			share += int(to)
		}
		if share < 380 || share > 520 {
			t.Errorf("%d of 900 go to the second, want about half", share)
		}
	}
	// Over the rounds neither is always first.
	for seed := range uint64(10) {
		for _, pair := range planOpen(10, seed).separate {
			if pair[1][0] < pair[0][0] {
				firsts[1]++
			} else {
				firsts[0]++
			}
		}
	}
	if firsts[0] < 45 || firsts[1] < 45 {
		t.Errorf("%v of the pairs begin with one and the other, want about as many", firsts)
	}
}

func TestBlocksAreOfTheirProxy(t *testing.T) {
	p := planOpen(10, 3)
	trips := make([]load.Trip, len(p.order))
	for i, to := range p.order {
		// To the first 100 µs, to the second 200, each 5 late.
		trips[i] = load.Trip{Due: int64(i) * 1000, Sent: int64(i)*1000 + 5000, Done: int64(i)*1000 + 105_000 + int64(to)*100_000}
	}
	o := p.blocks(trips)
	if len(o.Separate) != turnPairs || len(o.Paired) != turnsShared {
		t.Fatalf("%d pairs of turns, %d shared ones, want %d and %d", len(o.Separate), len(o.Paired), turnPairs, turnsShared)
	}
	for i, b := range append(o.Separate, o.Paired...) {
		count := 9
		if i < turnPairs {
			count = 18
		}
		if n := len(b.FromDue[0]) + len(b.FromDue[1]); n != count || len(b.Late) != count {
			t.Errorf("block %d has %d latencies and %d of lateness, want %d", i, n, len(b.Late), count)
		}
		for to := range 2 {
			for j := range b.FromDue[to] {
				if want := int32(100 * (1 + to)); b.FromSent[to][j] != want || b.FromDue[to][j] != want+5 || b.Late[j] != 5 {
					t.Fatalf("block %d: from sent %d, due %d, late %d; want %d, %d, 5", i, b.FromSent[to][j], b.FromDue[to][j], b.Late[j], want, want+5)
				}
			}
		}
	}
}

// The verdict is of both intervals, and there is none where requests left late.
func TestWaitsAreJudgedFromDueAndFromSent(t *testing.T) {
	f := func(want string, late int32, due, sent []int32) {
		t.Helper()
		w := new(waits)
		bare := []int32{1000, 1000}
		for block := range due {
			w.add(opened{Separate: []openBlock{{
				FromDue:  [2][]int32{bare, {1000 + due[block]}},
				FromSent: [2][]int32{bare, {1000 + sent[block]}},
				Late:     []int32{0, late},
			}}})
		}
		if text := w.table(short); !strings.Contains(text, "≤ 60, "+want+" |") {
			t.Errorf("late %d, due %d, sent %d: want %s\n%s", late, due, sent, want, text)
		}
	}
	f("met", 500, []int32{10, 20, 30}, []int32{10, 20, 30})
	f("missed", 500, []int32{70, 80, 90}, []int32{10, 20, 30})
	f("not decided", 500, []int32{10, 80, 30}, []int32{10, 20, 30})
	f("not decided", 500, []int32{10, 20, 30}, []int32{70, 80, 90})
	f("not decided: the requests left too late", 501, []int32{10, 20, 30}, []int32{10, 20, 30})
	f("not decided: the requests left too late", 501, []int32{70, 80, 90}, []int32{70, 80, 90})
}
