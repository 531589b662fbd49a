package main

import (
	"compress/gzip"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// manPages are the templates of the pages.
//
//go:embed man.tmpl
var manPages string

// manCmd is for packages: it is in no help.
type manCmd struct {
	Dir string `arg:"" help:"Folder of the pages; it is made."`
}

// manPage is what a page is made of.
type manPage struct {
	Name, Summary string
	// Date and Version are those of the build.
	Date, Version string
	Node          *kong.Node
	// Commands are those that weir(1) names.
	Commands []*kong.Node
}

// Run writes weir.1.gz and a page for each subcommand, such as weir-serve.1.gz. The
// same program writes the same bytes.
func (c *manCmd) Run(k *kong.Context) error {
	pages, err := template.New("").Funcs(template.FuncMap{
		"flagsOf": flagsOf, "usageOf": usageOf, "withDefault": withDefault, "roff": roff, "paragraphs": paragraphs, "upper": strings.ToUpper,
		"title": func(group string) string { return strings.TrimSuffix(group, ":") },
	}).Parse(manPages)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	build := readBuild()
	date, _, _ := strings.Cut(build.Time, "T")
	write := func(kind string, p manPage) error {
		p.Date, p.Version = date, build.Version
		var b strings.Builder
		if err := pages.ExecuteTemplate(&b, kind, p); err != nil {
			return err
		}
		return writeGzip(filepath.Join(c.Dir, p.Name+".1.gz"), b.String())
	}
	commands := k.Model.Leaves(true)
	for _, n := range commands {
		summary := strings.ToLower(n.Help[:1]) + strings.TrimSuffix(n.Help[1:], ".")
		if err := write("command", manPage{Name: "weir-" + n.Name, Summary: summary, Node: n}); err != nil {
			return err
		}
	}
	return write("weir", manPage{Name: "weir", Summary: "rate limiter for one process or a fleet", Node: k.Model.Node, Commands: commands})
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

// paragraphs returns a text as roff. Lines that begin with a blank keep their form.
func paragraphs(text string) string {
	var b strings.Builder
	frames := map[bool]string{true: ".EX\n", false: ".EE\n"} // of what keeps its form
	asIs := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if asIs != indented {
			b.WriteString(frames[indented])
			asIs = indented
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if asIs {
		b.WriteString(".EE\n")
	}
	return b.String()
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
