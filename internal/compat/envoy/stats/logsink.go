package stats

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Lines writes statistics as lines of JSON, for those who have no other place
// for them.
type Lines struct{ W io.Writer }

func (l Lines) writeLine(name, kind, value string) {
	fields := map[string]string{"type": kind, "value": value}
	if name != "" {
		fields["name"] = name
	}
	// A statistic that cannot be written has nobody to tell.
	_ = json.NewEncoder(l.W).Encode(struct {
		Level   string            `json:"level"`
		Time    json.RawMessage   `json:"ts"`
		Logger  string            `json:"logger"`
		Message string            `json:"msg"`
		Fields  map[string]string `json:"json"`
	}{
		"debug", fmt.Appendf(nil, "%.6f", float64(time.Now().UnixNano())/1e9),
		"gostats.loggingsink", "flushing " + kind, fields,
	})
}

// Counter implements Sink.
func (l Lines) Counter(name string, delta uint64) {
	l.writeLine(name, "counter", fmt.Sprintf("%d.000000", delta))
}

// Gauge implements Sink.
func (l Lines) Gauge(name string, value uint64) {
	l.writeLine(name, "gauge", fmt.Sprintf("%d.000000", value))
}

// Timer implements Sink.
func (l Lines) Timer(name string, ms int64, n uint64) {
	for range n {
		l.writeLine(name, "timer", fmt.Sprintf("%d.000000", ms))
	}
}

// Flush implements Sink.
func (l Lines) Flush() { l.writeLine("", "all stats", "0.000000") }
