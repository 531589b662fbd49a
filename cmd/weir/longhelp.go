package main

import (
	"embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// longHelp are the long texts of `weir COMMAND --help`.
//
//go:embed help/*.txt
var longHelp embed.FS

// setLongHelp gives each subcommand its text, before what it says by itself.
func setLongHelp(model *kong.Application) error {
	for _, n := range model.Leaves(true) {
		text, err := longHelp.ReadFile("help/" + n.Name + ".txt")
		if err != nil {
			return err
		}
		// A blank line stands between the two, and none at the end.
		n.Detail = strings.TrimSuffix(string(text)+"\n"+n.Detail, "\n\n")
	}
	return nil
}

// flagsOf returns the flags of a subcommand, in the order of the help.
func flagsOf(n *kong.Node) []*kong.Flag { return slices.Concat(n.AllFlags(true)...) }
