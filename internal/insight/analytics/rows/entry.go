package rows

// EnsureEntry returns what a map has for a key, and creates it if there is nothing.
func EnsureEntry[K comparable, V any](m map[K]V, key K, create func() V) V {
	v, ok := m[key]
	if !ok {
		v = create()
		m[key] = v
	}
	return v
}

// EnsureZero returns the figures of a key, and creates empty ones if there are none.
func EnsureZero[K comparable, T any](figures map[K]*T, key K) *T {
	return EnsureEntry(figures, key, func() *T { return new(T) })
}
