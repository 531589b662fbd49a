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
		b.WriteByte('\n')
		writeWrapped(&b, f.Doc)
		if f.Differs != "" {
			writeWrapped(&b, "(here: "+f.Differs+")")
		}
	}
	return b.String()
}

// writeWrapped writes a text in lines that a terminal of 80 columns holds, where help is
// indented by two.
func writeWrapped(b *strings.Builder, text string) {
	const indent, width = "       ", 78
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}
