package protocol

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Machine is a protocol as states and the steps between them.
type Machine[S comparable] interface {
	Start() S
	// Steps calls add with each state that one step leads to, and the step's name.
	Steps(s S, add func(step string, next S))
	// Canonical returns the state that stands for all that differ from s only in the
	// order of nodes, messages or names.
	Canonical(s S) S
	// Broken names the invariant that does not hold in s, "" if all do.
	Broken(s S) string
	// Idle reports whether nothing is in flight in s and a node without work has returned all.
	Idle(s S) bool
}

// A Result says what Explore has seen.
type Result[S comparable] struct {
	States, Depth int
	// Whole: these are all states that can be reached.
	Whole bool
	// Bytes is the most memory that the states have taken: hashes, states that wait, edges.
	Bytes int
	// Broken is the invariant that does not hold, "" if all do, and Trace the shortest
	// way to that state.
	Broken string
	Trace  []Visit[S]
}

// A Visit is a state and the step that led to it.
type Visit[S comparable] struct {
	Step  string
	State S
}

// String returns the trace, a state to a line.
func (r Result[S]) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, depth %d, whole %t: %s\n", r.States, r.Depth, r.Whole, r.Broken)
	for i, v := range r.Trace {
		fmt.Fprintf(&b, "%3d %-14s ", i, v.Step)
		writeValue(&b, reflect.ValueOf(v.State))
		b.WriteByte('\n')
	}
	return b.String()
}

// writeValue writes a value as Go does with %+v, but for what is zero.
func writeValue(b *strings.Builder, v reflect.Value) {
	var name func(i int) string
	var n int
	var at func(i int) reflect.Value
	switch v.Kind() {
	case reflect.Struct:
		n, at, name = v.NumField(), v.Field, func(i int) string { return v.Type().Field(i).Name }
	case reflect.Array:
		n, at, name = v.Len(), v.Index, strconv.Itoa
	default:
		fmt.Fprint(b, v)
		return
	}
	gap := "{"
	for i := range n {
		if !at(i).IsZero() {
			b.WriteString(gap + name(i) + ":")
			writeValue(b, at(i))
			gap = " "
		}
	}
	if gap == "{" {
		b.WriteString("{")
	}
	b.WriteString("}")
}

// Explore visits the states of m breadth first until it has seen most of them, or one
// that breaks an invariant. If settles is set and it has seen all of them, a second pass
// looks for a state from which no idle one can be reached.
//
// States are kept as hashes of 64 bits: 12 bytes for each of 9/8 to 9/4 times most, and
// the states of two levels as they are.
func Explore[S comparable](m Machine[S], most int, settles bool) Result[S] {
	e := newExplorer(m, most)
	start := m.Canonical(m.Start())
	e.visitState(start, 0)
	r := Result[S]{Broken: m.Broken(start)}
	for level := 1; level > 0 && r.Broken == "" && e.seen.count < most; level = e.queue.count {
		for ; level > 0 && r.Broken == "" && e.seen.count < most; level-- {
			here := e.queue.dequeue()
			m.Steps(here.state, func(_ string, next S) {
				next = m.Canonical(next)
				slot, fresh := e.visitState(next, here.slot)
				if settles {
					e.edges = append(e.edges, edge{here.slot, slot})
				}
				if fresh && r.Broken == "" {
					if r.Broken = m.Broken(next); r.Broken != "" {
						r.Trace = e.traceFromStart(slot)
					}
				}
			})
		}
		r.Depth++
	}
	r.States, r.Whole, r.Bytes = e.seen.count, e.queue.count == 0, e.peakBytes()
	if settles && r.Whole && r.Broken == "" {
		if slot, stuck := e.findStuck(); stuck {
			r.Broken, r.Trace = "no idle state can be reached", e.traceFromStart(slot)
		}
	}
	return r
}

type explorer[S comparable] struct {
	m     Machine[S]
	seed  maphash.Seed
	seen  table
	queue queue[pending[S]]
	root  uint32
	// For the second pass.
	edges []edge
	idle  []uint32
}

// A pending state was seen, and its steps were not.
type pending[S comparable] struct {
	state S
	slot  uint32
}

type edge struct{ from, to uint32 }

func newExplorer[S comparable](m Machine[S], most int) *explorer[S] {
	slots := 1 << bits.Len(uint(most+most/8+1024))
	return &explorer[S]{m: m, seed: maphash.MakeSeed(), seen: table{hashes: make([]uint64, slots), parents: make([]uint32, slots)}}
}

// visitState notes a state that was reached from parent, and reports whether it is new.
func (e *explorer[S]) visitState(s S, parent uint32) (slot uint32, fresh bool) {
	slot, fresh = e.seen.addHash(maphash.Comparable(e.seed, s), parent)
	if fresh {
		if e.seen.count == 1 {
			e.root = slot
		}
		e.queue.enqueue(pending[S]{s, slot})
		if e.m.Idle(s) {
			e.idle = append(e.idle, slot)
		}
	}
	return slot, fresh
}

// peakBytes returns the most memory that was taken before the second pass, which takes half
// as much again for the edges.
func (e *explorer[S]) peakBytes() int {
	const slot, ends, idle = 8 + 4, 4 + 4, 4
	var waits pending[S]
	return slot*len(e.seen.hashes) + int(reflect.TypeOf(waits).Size())*e.queue.most + ends*len(e.edges) + idle*len(e.idle)
}

// traceFromStart returns the way from the start to a state that was seen: backward by parents,
// then forward by steps, since the states themselves are not kept.
func (e *explorer[S]) traceFromStart(slot uint32) []Visit[S] {
	way := []uint32{slot}
	for ; slot != e.root; way = append(way, slot) {
		slot = e.seen.parents[slot]
	}
	slices.Reverse(way)
	out := []Visit[S]{{"start", e.m.Canonical(e.m.Start())}}
	for i, slot := range way[1:] {
		e.m.Steps(out[i].State, func(step string, next S) {
			next = e.m.Canonical(next)
			if found, _ := e.seen.addHash(maphash.Comparable(e.seed, next), 0); found == slot && len(out) == i+1 {
				out = append(out, Visit[S]{step, next})
			}
		})
	}
	return out
}

// findStuck returns a state from which no idle one can be reached, if there is one: it
// follows the edges backward from those that are idle.
func (e *explorer[S]) findStuck() (slot uint32, stuck bool) {
	first := make([]uint32, len(e.seen.hashes)+1) // of those before a slot
	for _, d := range e.edges {
		first[d.to]++
	}
	for i := 1; i < len(first); i++ {
		first[i] += first[i-1]
	}
	before := make([]uint32, len(e.edges))
	for _, d := range e.edges {
		first[d.to]--
		before[first[d.to]] = d.from
	}
	settled := make([]bool, len(e.seen.hashes))
	for work := e.idle; len(work) > 0; {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		if settled[at] {
			continue
		}
		settled[at] = true
		for _, from := range before[first[at]:first[at+1]] {
			if !settled[from] {
				work = append(work, from)
			}
		}
	}
	for i, hash := range e.seen.hashes {
		if hash != 0 && !settled[i] {
			return uint32(i), true
		}
	}
	return 0, false
}
