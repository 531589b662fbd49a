package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"Shell to complete in: ${enum}."`
}

// Help is the long text of `weir completion --help`.
func (*completionCmd) Help() string {
	return `Examples:

  source <(weir completion bash)                                   # this shell
  weir completion bash > /etc/bash_completion.d/weir               # all shells
  weir completion zsh > "${fpath[1]}/_weir"
  weir completion fish > ~/.config/fish/completions/weir.fish
  weir completion powershell >> $PROFILE

Exit status: 0 printed, 2 an unknown shell.`
}

// Run prints the script.
func (c *completionCmd) Run(k *kong.Context, s streams) error {
	words := commandWords(k.Model)
	switch c.Shell {
	case "bash":
		return bashCompletion(s.out, words)
	case "zsh":
		return zshCompletion(s.out, words)
	case "powershell":
		return powershellCompletion(s.out, words)
	default:
		return fishCompletion(s.out, words)
	}
}

// command is one subcommand as a shell completes it.
type command struct {
	name, help string
	flags      []flag
	// values are the words that its argument can be; files: it is a path.
	values []string
	files  bool
}

// flag is one flag as a shell completes it.
type flag struct {
	name, help string
	takesValue bool
	// values are the words that it can be; files: it is a path.
	values []string
	files  bool
}

// commandWords reads the subcommands from the model of the command line, so
// that completion cannot forget one.
func commandWords(model *kong.Application) []command {
	var out []command
	for _, n := range model.Leaves(true) {
		c := command{name: n.Name, help: n.Help}
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				c.flags = append(c.flags, flag{
					name:       f.Name,
					help:       strings.ReplaceAll(f.Help, "\n", " "),
					takesValue: !f.IsBool(),
					values:     enumOf(f.Value),
					files:      namesFiles(f.PlaceHolder),
				})
			}
		}
		for _, a := range n.Positional {
			c.values = append(c.values, enumOf(a)...)
			c.files = c.files || namesFiles(a.Tag.PlaceHolder)
		}
		slices.SortFunc(c.flags, func(a, b flag) int { return strings.Compare(a.name, b.name) })
		out = append(out, c)
	}
	return out
}

func enumOf(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return strings.Split(v.Enum, ",")
}

func namesFiles(placeholder string) bool { return strings.Contains(placeholder, "FILE") }

// names returns the names of all, each after prefix.
func names[T any](all []T, name func(T) string) string {
	var words []string
	for _, x := range all {
		words = append(words, name(x))
	}
	return strings.Join(words, " ")
}

func bashCompletion(w io.Writer, commands []command) error {
	var b strings.Builder
	b.WriteString(`# Completion of weir for bash.
_weir() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev='' command='' i
	((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD-1]}
	# bash splits --flag=value into three words.
	if [[ $cur == "=" ]]; then cur=''; elif [[ $prev == "=" && COMP_CWORD -ge 2 ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} != -* ]]; then command=${COMP_WORDS[i]}; break; fi
	done
	COMPREPLY=()
	case $command in
`)
	fmt.Fprintf(&b, "\t'') mapfile -t COMPREPLY < <(compgen -W '%s --help' -- \"$cur\") ;;\n",
		names(commands, func(c command) string { return c.name }))
	for _, c := range commands {
		fmt.Fprintf(&b, "\t%s)\n\t\tcase $prev in\n", c.name)
		for _, f := range c.flags {
			switch {
			case !f.takesValue:
			case f.files:
				fmt.Fprintf(&b, "\t\t--%s) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;\n", f.name)
			default:
				fmt.Fprintf(&b, "\t\t--%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); return ;;\n", f.name, strings.Join(f.values, " "))
			}
		}
		b.WriteString("\t\tesac\n\t\tif [[ $cur == -* ]]; then\n")
		fmt.Fprintf(&b, "\t\t\tmapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n",
			names(c.flags, func(f flag) string { return "--" + f.name }))
		b.WriteString("\t\telse\n")
		if c.files {
			b.WriteString("\t\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n")
		} else {
			fmt.Fprintf(&b, "\t\t\tmapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n", strings.Join(c.values, " "))
		}
		b.WriteString("\t\tfi ;;\n")
	}
	b.WriteString("\tesac\n}\ncomplete -o filenames -F _weir weir\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// zshQuote quotes text for the inside of a bracket in an _arguments spec.
func zshQuote(s string) string {
	return strings.NewReplacer(`'`, `'\''`, `[`, `\[`, `]`, `\]`, `:`, `\:`, "`", "", `"`, "", `$`, `\$`).Replace(s)
}

func zshCompletion(w io.Writer, commands []command) error {
	var b strings.Builder
	b.WriteString("#compdef weir\n# Completion of weir for zsh.\n_weir() {\n\tlocal -a commands\n\tcommands=(\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\t\t'%s:%s'\n", c.name, zshQuote(c.help))
	}
	b.WriteString("\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tlocal command=$words[2]\n\tshift words\n\t((CURRENT--))\n\tcase $command in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\t%s)\n\t\t_arguments", c.name)
		for _, f := range c.flags {
			fmt.Fprintf(&b, " \\\n\t\t\t'*--%s%s[%s]%s'", f.name, orEmpty(f.takesValue, "="), zshQuote(f.help), zshValue(f.takesValue, f.values, f.files))
		}
		if c.files || len(c.values) > 0 {
			fmt.Fprintf(&b, " \\\n\t\t\t'*%s'", zshValue(true, c.values, c.files))
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("\tesac\n}\n_weir \"$@\"\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func orEmpty(yes bool, s string) string {
	if yes {
		return s
	}
	return ""
}

// zshValue says what follows a flag or stands as an argument.
func zshValue(takes bool, values []string, files bool) string {
	switch {
	case !takes:
		return ""
	case files:
		return ":file:_files"
	case len(values) > 0:
		return ":value:(" + strings.Join(values, " ") + ")"
	}
	return ":value: "
}

func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func fishCompletion(w io.Writer, commands []command) error {
	var b strings.Builder
	b.WriteString("# Completion of weir for fish.\ncomplete -c weir -f\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "complete -c weir -n __fish_use_subcommand -a %s -d %s\n", c.name, fishQuote(c.help))
	}
	for _, c := range commands {
		on := fmt.Sprintf("complete -c weir -n '__fish_seen_subcommand_from %s'", c.name)
		for _, f := range c.flags {
			fmt.Fprintf(&b, "%s -l %s -d %s", on, f.name, fishQuote(f.help))
			switch {
			case !f.takesValue:
			case f.files:
				b.WriteString(" -r -F")
			default:
				b.WriteString(" -x")
				if len(f.values) > 0 {
					fmt.Fprintf(&b, " -a %s", fishQuote(strings.Join(f.values, " ")))
				}
			}
			b.WriteByte('\n')
		}
		if c.files {
			fmt.Fprintf(&b, "%s -F\n", on)
		} else if len(c.values) > 0 {
			fmt.Fprintf(&b, "%s -a %s\n", on, fishQuote(strings.Join(c.values, " ")))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
