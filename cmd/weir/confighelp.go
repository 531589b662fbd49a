package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/server"
)

// flagColumn is the width of the flags in the help of serve, in columns.
const flagColumn = 33

// printHelp prints the help of the selected command. That of serve has one line a
// flag, in groups: the first sentence of its help, and its default.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	command := ctx.Selected()
	if command == nil || command.Name != "serve" {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: weir serve [flags]\n\n%s\n\n%s\n", command.Help, command.Detail)
	group := "Flags:"
	fmt.Fprintf(&b, "\n%s\n", group)
	for _, level := range command.AllFlags(true) {
		for _, f := range level {
			if f.Group != nil && f.Group.Title != group {
				group = f.Group.Title
				fmt.Fprintf(&b, "\n%s\n", group)
			}
			line := server.Summarize(f.Help)
			if f.Default != "" && f.Default != "0" && f.Default != "0s" && f.Default != "false" {
				line += " [" + f.Default + "]"
			}
			fmt.Fprintf(&b, "  %-*s  %s\n", flagColumn, usageOf(f), line)
		}
	}
	_, err := io.WriteString(ctx.Stdout, b.String())
	return err
}

// usageOf returns how a flag is written, with what stands for its value.
func usageOf(f *kong.Flag) string {
	usage := "--" + f.Name
	switch {
	case f.IsBool():
		return usage
	case f.Enum != "":
		return usage + "=" + strings.ReplaceAll(f.Enum, ",", "|")
	}
	return usage + "=" + f.FormatPlaceHolder()
}

// printConfigKeys lists every key of the configuration file.
func printConfigKeys(w io.Writer) error {
	var b strings.Builder
	b.WriteString("Keys of the configuration file of weir serve, given with --config FILE. The list\nroutes and the section shed are described in docs/reference/generated/configuration.md.\n")
	for _, s := range server.Settings() {
		fmt.Fprintf(&b, "\n%s", s.Key)
		if s.Default != "" {
			fmt.Fprintf(&b, " [%s]", s.Default)
		}
		if s.Flag != "" {
			fmt.Fprintf(&b, " (--%s, %s)", s.Flag, s.Env())
		}
		fmt.Fprintf(&b, "\n    %s\n", s.Help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unknownFlag finds the flag in the error for one that there is not.
var unknownFlag = regexp.MustCompile(`^unknown flag --([a-z0-9-]+)`)

// explainMovedFlag returns the error for a flag of an earlier version, which says where
// its setting is now, and err itself for any other error.
func explainMovedFlag(err error) error {
	m := unknownFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	s, ok := server.FindMoved(m[1])
	if !ok {
		return err
	}
	return errors.New("--" + m[1] + " " + whereMoved(s))
}

// whereMoved says where the setting of an old flag or variable is now.
func whereMoved(s server.Setting) string {
	if s.Flag != "" {
		return fmt.Sprintf("is now --%s (%s in the configuration file)", s.Flag, s.Key)
	}
	return fmt.Sprintf("is now %s in the configuration file, given with --config FILE", s.Key)
}
