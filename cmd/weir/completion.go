package main

import (
	"embed"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// completionScripts are templates of scripts for shells, made for all subcommands.
//
//go:embed completion/*.tmpl
var completionScripts embed.FS

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"Shell to complete in: ${enum}."`
}

// Run prints the script.
func (c *completionCmd) Run(k *kong.Context, s streams) error {
	name := c.Shell + ".tmpl"
	script, err := template.New(name).Funcs(template.FuncMap{
		"join": func(words []string) string { return strings.Join(words, " ") },
		"zsh":  zshQuote, "fish": fishQuote, "powershell": powershellQuote,
	}).ParseFS(completionScripts, "completion/"+name)
	if err != nil {
		return err
	}
	return script.Execute(s.out, commandWords(k.Model))
}

// command is one subcommand as a shell completes it.
type command struct {
	Name, Help string
	Flags      []flag
	// choice is that of its arguments.
	choice
}

// flag is one flag as a shell completes it.
type flag struct {
	Name, Help string
	TakesValue bool
	choice
}

// choice is what a flag or an argument can be: one of Values; Files: a path.
type choice struct {
	Values []string
	Files  bool
}

// addValues adds what one of them can be.
func (c *choice) addValues(v *kong.Value) {
	if v.Enum != "" {
		c.Values = append(c.Values, strings.Split(v.Enum, ",")...)
	}
	c.Files = c.Files || strings.Contains(v.Tag.PlaceHolder, "FILE")
}

// commandWords reads the subcommands from the model of the command line, so
// that completion cannot forget one.
func commandWords(model *kong.Application) []command {
	var out []command
	for _, n := range model.Leaves(true) {
		c := command{Name: n.Name, Help: n.Help}
		for _, f := range flagsOf(n) {
			one := flag{Name: f.Name, Help: strings.ReplaceAll(f.Help, "\n", " "), TakesValue: !f.IsBool()}
			one.addValues(f.Value)
			c.Flags = append(c.Flags, one)
		}
		for _, a := range n.Positional {
			c.addValues(a)
		}
		slices.SortFunc(c.Flags, func(a, b flag) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, c)
	}
	return out
}

// zshQuote quotes text for the inside of a bracket in an _arguments spec.
func zshQuote(s string) string {
	return strings.NewReplacer(`'`, `'\''`, `[`, `\[`, `]`, `\]`, `:`, `\:`, "`", "", `"`, "", `$`, `\$`).Replace(s)
}

// fishQuote quotes text for fish.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// powershellQuote quotes text for PowerShell.
func powershellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
