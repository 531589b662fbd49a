package settings

import (
	"fmt"
	"log/slog"
	"strings"
)

// ParseLevel reads LOG_LEVEL.
func ParseLevel(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "panic", "fatal", "error":
		return slog.LevelError, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "info":
		return slog.LevelInfo, nil
	case "debug", "trace":
		return slog.LevelDebug, nil
	}
	return 0, fmt.Errorf("not a level: use panic, fatal, error, warn, info, debug or trace")
}

// idle lists variables that are read, checked, and have no effect here, with
// the reason.
var idle = []struct{ names, why string }{
	{"REDIS_POOL_SIZE REDIS_PERSECOND_POOL_SIZE", "calls share one connection to a server, in pipelines"},
	{"REDIS_PIPELINE_WINDOW REDIS_PERSECOND_PIPELINE_WINDOW", "commands that wait for a connection are written together anyway"},
	{"REDIS_PIPELINE_LIMIT REDIS_PERSECOND_PIPELINE_LIMIT", "it has no effect in Envoy's service either"},
	{"REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM", "commands for all keys go out at a time"},
	{"GOSTATS_FLUSH_INTERVAL_SECONDS", "set STATS_FLUSH_INTERVAL"},
	{"GOSTATS_LOGGING_SINK_DISABLED", "set DISABLE_STATS"},
	{"REDIS_POOL_ON_EMPTY_WAIT_DURATION REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION", "calls wait as long as their time allows"},
}

// NoteIneffective returns a sentence for each variable that is set and has no effect.
func NoteIneffective(lookup Lookup) (notes []string) {
	for _, v := range idle {
		for name := range strings.FieldsSeq(v.names) {
			if _, ok := lookup(name); ok {
				notes = append(notes, fmt.Sprintf("%s is set and has no effect: %s", name, v.why))
			}
		}
	}
	return notes
}

// Mogrifier is one of USE_DOG_STATSD_MOGRIFIERS.
type Mogrifier struct {
	Name    string            // as listed
	Pattern string            // regular expression that a statistic's name must match
	Rename  string            // name to give it, with $1 and so on
	Tags    map[string]string // tags to give it, with $1 and so on
}

// Mogrifiers reads the variables of the mogrifiers listed, in their order.
func (s *Settings) Mogrifiers(lookup Lookup) ([]Mogrifier, error) {
	var all []Mogrifier
	for _, name := range s.DogStatsdMogrifiers {
		prefix := "DOG_STATSD_MOGRIFIER_" + name + "_"
		get := func(which string) string {
			// The rest of the name is in capitals, however the list writes it.
			v, _ := lookup(strings.ToUpper(prefix + which))
			return v
		}
		m := Mogrifier{Name: name, Pattern: get("PATTERN"), Rename: get("NAME")}
		var err error
		if m.Tags, err = ParseMap(get("TAGS")); err != nil {
			return nil, fmt.Errorf("%sTAGS: %w", prefix, err)
		}
		if m.Pattern == "" {
			return nil, fmt.Errorf("%sPATTERN is not set", prefix)
		}
		if m.Rename == "" {
			return nil, fmt.Errorf("%sNAME is not set", prefix)
		}
		for k, v := range m.Tags {
			if k == "" || v == "" {
				return nil, fmt.Errorf("%sTAGS: %q:%q lacks a key or a value", prefix, k, v)
			}
		}
		all = append(all, m)
	}
	return all, nil
}
