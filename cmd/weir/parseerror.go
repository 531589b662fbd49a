package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/server"
)

// unknownFlag finds the flag in the error for one that there is not.
var unknownFlag = regexp.MustCompile(`^unknown flag --([a-z0-9-]+)`)

// explainParseError returns an error that says what to write instead of a flag of an
// earlier version, or of a file where weir serve takes none, and any other error as it is.
func explainParseError(err error) error {
	pe, ok := errors.AsType[*kong.ParseError](err)
	if !ok || pe.Context == nil {
		return err
	}
	if arg, found := strings.CutPrefix(err.Error(), "unexpected argument "); found && commandOf(pe.Context) == "weir serve" {
		if server.IsConfig(arg) {
			return fmt.Errorf("weir serve takes no arguments: give the configuration as --config %s", arg)
		}
		return fmt.Errorf("weir serve takes no arguments: give rules as --rules %s, or a configuration as --config %[1]s", arg)
	}
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		if s, ok := server.FindMoved(m[1]); ok {
			return errors.New("--" + m[1] + " " + whereMoved(s))
		}
		for _, f := range pe.Context.Flags() {
			if f.Tag.Get("was") == m[1] {
				return fmt.Errorf("--%s is now --%s", m[1], f.Name)
			}
		}
	}
	return err
}

// whereMoved says where the setting of an old flag or variable is now.
func whereMoved(s server.Setting) string {
	if s.Flag != "" {
		return fmt.Sprintf("is now --%s (%s in the configuration file)", s.Flag, s.Key)
	}
	return fmt.Sprintf("is now %s in the configuration file, given with --config FILE", s.Key)
}

// commandOf returns the words of the subcommand that ctx got to.
func commandOf(ctx *kong.Context) string {
	words := "weir"
	for _, p := range ctx.Path {
		if p.Command != nil {
			words += " " + p.Command.Name
		}
	}
	return words
}
