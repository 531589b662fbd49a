package analytics

import "slices"

// entry returns what a map has for a key, and creates it if there is nothing.
func entry[K comparable, V any](m map[K]V, key K, create func() V) V {
	v, ok := m[key]
	if !ok {
		v = create()
		m[key] = v
	}
	return v
}

// of returns the figures of a key, and creates empty ones if there are none.
func of[K comparable, T any](figures map[K]*T, key K) *T {
	return entry(figures, key, func() *T { return new(T) })
}

func newCounts() map[int64]int64 { return map[int64]int64{} }

// oneOf reports whether a word is one of those that are asked for.
func oneOf[T comparable](list []T, word T) bool { return list == nil || slices.Contains(list, word) }
