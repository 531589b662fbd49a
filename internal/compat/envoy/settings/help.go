package settings

import (
	"strings"

	"github.com/weirlimit/weir/internal/figures"
)

// Help returns every variable as plain text, for a terminal.
func Help() string {
	const indent = "        "
	var b strings.Builder
	for _, f := range Fields() {
		if f.Group != "" {
			b.WriteString("\n" + f.Group + "\n")
		}
		b.WriteString("  " + f.Name)
		if f.Default != "" {
			b.WriteString("=" + f.Default)
		}
		b.WriteString("\n" + figures.Wrap(indent, f.Doc))
		if f.Differs != "" {
			b.WriteString(figures.Wrap(indent, "(here: "+f.Differs+")"))
		}
	}
	return b.String()
}
