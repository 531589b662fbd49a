// Licenses writes the licences of what is linked into the binary: a list of modules with
// docs/reference/generated/licenses.md, and all texts with -texts FILE, which packages hold.
//
//	go -C tools run ./licenses [-texts FILE]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

const page = "docs/reference/generated/licenses.md"

func main() {
	root := flag.String("root", "..", "the checkout")
	texts := flag.String("texts", "", "write the texts into this file, instead of the list")
	flag.Parse()
	if err := run(*root, *texts); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(root, texts string) error {
	parts, err := readParts(root)
	if err != nil {
		return err
	}
	if texts != "" {
		return os.WriteFile(texts, formatTexts(parts), 0o644)
	}
	return os.WriteFile(root+"/"+page, formatList(parts), 0o644)
}

// formatList returns the page. It has no versions, as an upgrade rarely changes a licence.
func formatList(parts []part) []byte {
	var out bytes.Buffer
	out.WriteString("# Licences\n\nWhat is linked into `weir` beside its own code, for all platforms, and its licences by SPDX. " +
		"`go -C tools run ./licenses` makes this page; packages and archives hold the texts in `THIRD-PARTY`, and the SBOM of a binary its versions.\n\n" +
		"| part | licences |\n|---|---|\n")
	for _, p := range parts {
		fmt.Fprintf(&out, "| %s | %s |\n", p.name, p.licences())
	}
	return out.Bytes()
}

// formatTexts returns each text once, under the names of the parts that have it.
func formatTexts(parts []part) []byte {
	names, order := map[string][]string{}, []string(nil)
	for _, p := range parts {
		for _, n := range p.notices {
			if names[n.text] == nil {
				order = append(order, n.text)
			}
			names[n.text] = append(names[n.text], p.name+" "+n.file)
		}
	}
	var out bytes.Buffer
	out.WriteString("What is linked into weir beside its own code, and the texts of its licences.\n")
	for _, text := range order {
		out.WriteString("\n" + string(bytes.Repeat([]byte("="), 78)) + "\n")
		for _, name := range names[text] {
			out.WriteString(name + "\n")
		}
		out.WriteString("\n" + text + "\n")
	}
	return out.Bytes()
}
