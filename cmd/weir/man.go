package main

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirlimit/weir/internal/server"
)

// manCmd is for packages: it is in no help.
type manCmd struct {
	Dir string `arg:"" help:"Folder of the pages; it is made."`
}

// Run writes weir.1.gz and a page for each subcommand, such as weir-serve.1.gz. The
// same program writes the same bytes.
func (c *manCmd) Run(k *kong.Context) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	build := readBuild()
	commands := k.Model.Leaves(true)
	pages := map[string]string{"weir": manOfAll(k.Model, commands, build)}
	for _, n := range commands {
		pages["weir-"+n.Name] = manOf(n, build)
	}
	for name, text := range pages {
		if err := writeGzip(filepath.Join(c.Dir, name+".1.gz"), text); err != nil {
			return err
		}
	}
	return nil
}

// writeGzip writes text compressed, without a name or a time in it.
func writeGzip(path, text string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

// manOfAll returns weir(1), which names the subcommands.
func manOfAll(model *kong.Application, commands []*kong.Node, build server.Build) string {
	var b strings.Builder
	writeManHead(&b, "weir", "rate limiter for one process or a fleet", build)
	b.WriteString(".SH SYNOPSIS\n.B weir\n.I command\n.RI [ flags ]\n.SH DESCRIPTION\n")
	writeManText(&b, model.Help)
	b.WriteString(".SH COMMANDS\n")
	for _, n := range commands {
		fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff("weir-"+n.Name), roff(n.Help))
	}
	b.WriteString(`.SH EXIT STATUS
.TP
.B 0
Yes, or done.
.TP
.B 1
No: a request was refused, or rules are not valid.
.TP
.B 2
The question could not be answered.
`)
	return b.String()
}

// manOf returns the page of one subcommand.
func manOf(n *kong.Node, build server.Build) string {
	var b strings.Builder
	summary := strings.ToLower(n.Help[:1]) + strings.TrimSuffix(n.Help[1:], ".")
	writeManHead(&b, "weir-"+n.Name, summary, build)
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B weir\n%s\n.SH DESCRIPTION\n%s\n", roff(n.Summary()), roff(n.Help))
	if n.Detail != "" {
		b.WriteString(".PP\n")
		writeManText(&b, n.Detail)
	}
	if len(n.Positional) > 0 {
		b.WriteString(".SH ARGUMENTS\n")
		for _, a := range n.Positional {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", roff(a.Summary()), roff(withDefault(a)))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	group := ""
	for _, level := range n.AllFlags(true) {
		for _, f := range level {
			if f.Group != nil && f.Group.Title != group {
				group = f.Group.Title
				fmt.Fprintf(&b, ".SS %s\n", roff(strings.TrimSuffix(group, ":")))
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(usageOf(f)), roff(withDefault(f.Value)))
		}
	}
	b.WriteString(".SH ENVIRONMENT\nA flag that is not given is read from a variable: " + roff("--timeout from WEIR_TIMEOUT") + ".\n.SH SEE ALSO\n.BR weir (1)\n")
	return b.String()
}

// writeManHead writes the title and the section NAME.
func writeManHead(b *strings.Builder, name, summary string, build server.Build) {
	date, _, _ := strings.Cut(build.Time, "T")
	fmt.Fprintf(b, ".TH %s 1 %q %q \"Weir\"\n.SH NAME\n%s \\- %s\n",
		roff(strings.ToUpper(name)), date, roff("weir "+build.Version), roff(name), roff(summary))
}

// writeManText writes paragraphs. Lines that begin with a blank keep their form.
func writeManText(b *strings.Builder, text string) {
	asIs := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case line == "" && asIs:
			b.WriteString(".EE\n")
			asIs = false
			b.WriteString(".PP\n")
			continue
		case line == "":
			b.WriteString(".PP\n")
			continue
		case indented && !asIs:
			b.WriteString(".EX\n")
			asIs = true
		case !indented && asIs:
			b.WriteString(".EE\n")
			asIs = false
		}
		b.WriteString(roff(line) + "\n")
	}
	if asIs {
		b.WriteString(".EE\n")
	}
}

// roffEscapes are the characters that roff would read as its own.
var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`, "'", `\(aq`)

// roff returns text as roff prints it, in one line or as many as it has.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
