package settings

import "strings"

// Page returns every variable as Markdown tables, one a group.
func Page() string {
	var b strings.Builder
	for _, f := range Fields() {
		if f.Group != "" {
			b.WriteString("\n### " + f.Group + "\n\n| variable | default | meaning | what differs here |\n|---|---|---|---|\n")
		}
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		b.WriteString("| `" + f.Name + "` | " + def + " | " + cell(f.Doc) + " | " + cell(f.Differs) + " |\n")
	}
	b.WriteString("\n")
	return b.String()
}

// Help returns every variable as plain text, for a terminal.
func Help() string {
	var b strings.Builder
	for _, f := range Fields() {
		if f.Group != "" {
			b.WriteString("\n" + f.Group + "\n")
		}
		b.WriteString("  " + f.Name)
		if f.Default != "" {
			b.WriteString("=" + f.Default)
		}
		b.WriteString("\n        " + f.Doc + "\n")
		if f.Differs != "" {
			b.WriteString("        (here: " + f.Differs + ")\n")
		}
	}
	return b.String()
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
}
