package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/figures"
)

// flagColumn is the width of the flags in the help of serve, in columns.
const flagColumn = 26

// printHelp prints the help of the selected command. That of serve has one line a
// flag, in groups: the first sentence of its help, and its default. Those that few need
// are only named.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	command := ctx.Selected()
	switch {
	case command == nil:
		return printCommands(ctx)
	case command.Name != "serve":
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: weir serve [flags] [FILE ...]\n\n%s\n\n%s\n", command.Help, command.Detail)
	group, more := "Flags:", []string(nil)
	fmt.Fprintf(&b, "\n%s\n", group)
	for _, f := range flagsOf(command) {
		if f.Tag.Has("more") {
			more = append(more, "--"+f.Name)
			continue
		}
		if f.Group != nil && f.Group.Title != group {
			group = f.Group.Title
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		line := config.Summarize(f.Help)
		if f.Default != "" && f.Default != "0" && f.Default != "0s" && f.Default != "false" {
			line += " [" + f.Default + "]"
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", flagColumn, usageOf(f), line)
	}
	fmt.Fprintf(&b, "\nMore flags, in the list of weir help config:\n")
	for names := range slices.Chunk(more, 4) {
		fmt.Fprintf(&b, "  %s\n", strings.Join(names, " "))
	}
	_, err := io.WriteString(ctx.Stdout, b.String())
	return err
}

// printCommands prints the subcommands in their groups, and those of none in one line.
func printCommands(ctx *kong.Context) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: weir COMMAND [flags]\n\n%s", description)
	group, others := "", ""
	for _, n := range ctx.Model.Leaves(true) {
		if n.Group == nil {
			others += ", " + n.Name
			continue
		}
		if n.Group.Title != group {
			group = n.Group.Title
			fmt.Fprintf(&b, "\n%s\n", group)
		}
		fmt.Fprintf(&b, "  %-9s  %s\n", n.Name, n.Help)
	}
	fmt.Fprintf(&b, `
Others: %s. Each says more with --help.

Exit status: 0 yes, 1 no (refused, not valid), 2 error.

Colour is for terminals: NO_COLOR=1 in the environment is for none,
CLICOLOR_FORCE=1 for colour in pipes and files too.
`, others[2:])
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
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "\n%s", s.Key)
		if s.Default != "" {
			fmt.Fprintf(&b, " [%s]", s.Default)
		}
		switch {
		case s.Flag != "":
			fmt.Fprintf(&b, " (--%s, %s)", s.Flag, s.Env())
		case s.Env() != "":
			fmt.Fprintf(&b, " (%s)", s.Env())
		}
		b.WriteString("\n" + figures.Wrap("    ", s.Help))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
