//go:build !race

// Package race says whether tests run under the race detector. It makes SQLite several
// times slower, and it drops what is put into a sync.Pool now and then, so that code
// that does not allocate does.
package race

// Enabled reports whether the race detector is compiled in.
const Enabled = false
