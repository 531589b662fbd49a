package main

import (
	"fmt"

	"github.com/weirlimit/weir/internal/server"
)

// version is what `make build` tells the linker; nothing else sets it.
var version string

type versionCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run prints the build.
func (v *versionCmd) Run(s streams) error {
	b := server.ReadBuild(version)
	if v.JSON {
		return s.writeJSON(b)
	}
	_, err := fmt.Fprintln(s.out, "weir", b)
	return err
}
