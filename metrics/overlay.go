package metrics

import (
	"time"

	"github.com/weirlimit/weir/limits"
)

// Overlay counts what operators changed: bans, overrides and free passes of single
// keys, and modes of limits.
type Overlay struct {
	Bans, Overrides, Allowed int
	Modes                    []Mode
}

// Mode is a mode that an operator gave a limit.
type Mode struct {
	limits.Name
	// Mode is enforce, shadow or off.
	Mode string
	// Percent of the keys that are refused.
	Percent int64
	// Until is when it ends. Zero means never.
	Until time.Time
}

func (s Overlay) collect(out sink) {
	entries := out.gauges("weir_overlay_entries", "Active changes by operators: bans, overrides and allow entries of single keys, modes of limits.", "kind")
	entries.set(float64(s.Bans), "ban")
	entries.set(float64(s.Overrides), "override")
	entries.set(float64(s.Allowed), "allow")
	entries.set(float64(len(s.Modes)), "mode")
	percent := out.gauges("weir_overlay_mode_percent", "Limits with a mode set by an operator: the percentage of their keys for which refusals are enforced.", "domain", "rule", "limit", "mode")
	until := out.gauges("weir_overlay_mode_until_timestamp_seconds", "When the mode set by an operator ends; absent for a mode without an end.", "domain", "rule", "limit")
	for i := range s.Modes {
		m := &s.Modes[i]
		percent.set(float64(m.Percent), m.Domain, m.Rule, m.Limit, m.Mode)
		if !m.Until.IsZero() {
			until.set(float64(m.Until.UnixMicro())/1e6, m.Domain, m.Rule, m.Limit)
		}
	}
}
