package counter

// MemoryStats tells how full a Memory is.
type MemoryStats struct {
	// Keys is how many counters are kept, those that are over included.
	Keys int
	// Shared is how many times a hit was counted in a sketch for want of room.
	Shared uint64
}

// Stats returns how full the store is.
func (m *Memory) Stats() (t MemoryStats) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		t.Keys += len(s.entries)
		t.Shared += s.shared
		s.mu.Unlock()
	}
	return t
}
