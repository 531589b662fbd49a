package settings

import "strings"

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
