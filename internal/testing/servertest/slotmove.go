package servertest

import (
	"fmt"
	"strings"
	"testing"
)

// A SlotMove moves a slot of a cluster and its keys from one server to another, step by
// step, as redis-cli --cluster reshard does.
type SlotMove struct {
	servers  []*RedisServer
	slot     string
	from, to int
}

// BeginSlotMove begins to move a slot from one of the primaries to another. From here on
// the first answers for keys that it does not have with ASK.
func BeginSlotMove(t testing.TB, primaries []*RedisServer, slot, from, to int) *SlotMove {
	t.Helper()
	m := &SlotMove{primaries, fmt.Sprint(slot), from, to}
	primaries[to].Do(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.id(t, from))
	primaries[from].Do(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.id(t, to))
	return m
}

// MoveKey moves one key, and reports whether there was one.
func (m *SlotMove) MoveKey(t testing.TB) bool {
	t.Helper()
	from := m.servers[m.from]
	keys, ok := from.Do(t, "CLUSTER", "GETKEYSINSLOT", m.slot, "1").([]any)
	if !ok || len(keys) == 0 {
		return false
	}
	host, port, _ := strings.Cut(m.servers[m.to].Addr, ":")
	from.Do(t, "MIGRATE", host, port, fmt.Sprint(keys[0]), "0", "5000")
	return true
}

// End moves what keys are left, gives the slot to the server that has them, and waits
// until all primaries have heard of it: what is said of a slot meanwhile would be older
// than the next move. From here on the others answer with MOVED.
func (m *SlotMove) End(t testing.TB) {
	t.Helper()
	for m.MoveKey(t) {
	}
	owner := m.id(t, m.to)
	m.servers[m.to].Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", owner)
	for i, s := range m.servers {
		if i != m.to {
			s.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", owner)
		}
	}
	// A line is: id, address, flags, primary, ping, pong, epoch, ...
	epoch := func(s *RedisServer) string {
		for line := range strings.Lines(fmt.Sprint(s.Do(t, "CLUSTER", "NODES"))) {
			if f := strings.Fields(line); len(f) > 6 && f[0] == owner {
				return f[6]
			}
		}
		return ""
	}
	Await(t, "all servers to know who has the slot", func() bool {
		newest := epoch(m.servers[m.to])
		for _, s := range m.servers {
			if epoch(s) != newest {
				return false
			}
		}
		return newest != ""
	})
}

// MoveSlot moves a slot and its keys at once.
func MoveSlot(t testing.TB, primaries []*RedisServer, slot, from, to int) {
	t.Helper()
	BeginSlotMove(t, primaries, slot, from, to).End(t)
}

func (m *SlotMove) id(t testing.TB, i int) string {
	return fmt.Sprint(m.servers[i].Do(t, "CLUSTER", "MYID"))
}
