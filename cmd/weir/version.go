package main

import (
	"cmp"
	"fmt"

	"github.com/weirlimit/weir/internal/node"
)

// version, commit and date (of the commit) are what a build tells the linker; nothing
// else sets them.
var version, commit, date string

// readBuild returns which binary this is: what the linker was told, else what the
// toolchain recorded.
func readBuild() node.Build {
	b := node.ReadBuild(version)
	b.Revision, b.Time = cmp.Or(commit, b.Revision), cmp.Or(date, b.Time)
	return b
}

type versionCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run prints the build.
func (v *versionCmd) Run(s streams) error {
	b := readBuild()
	return s.writeReport(b, v.JSON, fmt.Sprintln("weir", b))
}
