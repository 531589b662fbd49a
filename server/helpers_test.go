package server

import (
	"strings"
	"sync"
)

// syncLog is a log that is read while it is written.
type syncLog struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written.
func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
