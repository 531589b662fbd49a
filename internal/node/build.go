package node

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build says which binary this is.
type Build struct {
	// Version is the module's version, "(devel)" when built from a checkout.
	Version string `json:"version"`
	// Revision is the commit, empty when the build did not record it.
	Revision string `json:"revision,omitempty"`
	// Modified: the checkout had changes beyond the commit.
	Modified bool `json:"modified,omitempty"`
	// Time is the commit's, as RFC 3339.
	Time string `json:"time,omitempty"`
	// Go is the toolchain, Platform what it built for.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ReadBuild reads what the toolchain recorded in the running binary. version
// is what the linker was told, empty for the module's.
func ReadBuild(version string) Build {
	b := Build{Version: "(unknown)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if version == "" {
		version = info.Main.Version
	}
	if version != "" {
		b.Version = version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time = s.Value
		}
	}
	return b
}

// String returns the build in one line.
func (b Build) String() string {
	s := b.Version
	if b.Revision != "" {
		s += " " + b.Revision[:min(len(b.Revision), 12)]
		if b.Modified {
			s += "+changes"
		}
	}
	if b.Time != "" {
		s += " " + b.Time
	}
	return fmt.Sprintf("%s %s %s", s, b.Go, b.Platform)
}
