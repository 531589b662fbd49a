package overlay

import (
	"time"

	"github.com/weirlimit/weir"
)

// View is an entry as operators are told of it, for encoding/json.
type View struct {
	Kind    Kind         `json:"kind"`
	Domain  string       `json:"domain"`
	Entries []weir.Entry `json:"entries"`
	Limit   string       `json:"limit"`
	Key     string       `json:"key"`
	// Rate and Burst are an override's, "5000/minute"; Burst 0: as many as Count.
	Rate  string `json:"rate,omitempty"`
	Burst int64  `json:"burst,omitempty"`
	// Until is when it ends, nil for never, by the store's clock.
	Until *time.Time `json:"until"`
	Made  time.Time  `json:"made"`
	By    string     `json:"by"`
	// YAML is the line of a rules file that it amounts to.
	YAML string `json:"yaml"`
}

// View returns e as operators are told of it.
func (e *Entry) View() View {
	v := View{Kind: e.Kind, Domain: e.Domain, Entries: e.Entries, Limit: e.Limit, Key: e.Key, Made: time.UnixMicro(e.Made).UTC(), By: e.By, YAML: e.YAML()}
	if e.Kind == Override {
		v.Rate, v.Burst = e.Rate(), e.Burst
	}
	if e.Until > 0 {
		until := time.UnixMicro(e.Until).UTC()
		v.Until = &until
	}
	return v
}

// Views returns the views of entries, never nil.
func Views(entries []Entry) []View {
	out := make([]View, len(entries))
	for i := range entries {
		out[i] = entries[i].View()
	}
	return out
}
