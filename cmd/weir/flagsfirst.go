package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// flagsFirst puts the flags of a subcommand before its other words, so that they may
// stand between them: after the files and before the entries, after a key and before
// what is to be done with it.
func flagsFirst(k *kong.Kong, args []string) []string {
	takesValue := map[string]bool{}
	known := false
	for _, n := range k.Model.Children {
		if len(args) == 0 || n.Name != args[0] {
			continue
		}
		known = true
		for _, f := range n.Flags {
			takesValue["--"+f.Name] = !f.IsBool()
			if f.Short != 0 {
				takesValue["-"+string(f.Short)] = !f.IsBool()
			}
		}
	}
	if !known {
		return args
	}
	flags, others := args[:1:1], []string(nil)
	for i := 1; i < len(args); i++ {
		switch {
		case args[i] == "--":
			others = append(others, args[i:]...)
			i = len(args)
		case args[i] == "-" || !strings.HasPrefix(args[i], "-"):
			others = append(others, args[i])
		default:
			flags = append(flags, args[i])
			if takesValue[args[i]] && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		}
	}
	return append(flags, others...)
}
