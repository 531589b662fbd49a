package settings_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

//go:generate go test . -run ^TestPageIsMadeFromSettings$ -update

var update = flag.Bool("update", false, "rewrite docs/reference/generated/ratelimit.md")

const head = `# Variables of weir ratelimit

The environment variables of [` + "`weir ratelimit`" + `](../../how-to/envoy-ratelimit.md), made by ` + "`go test ./internal/compat/envoy/settings -update`" + `.

Booleans are ` + "`1`, `t`, `true`, `0`, `f`, `false`" + ` in lower or upper case; durations ` + "`300ms`, `10s`, `1h30m`" + `; lists are split at commas. An empty number, duration or boolean is a start-up error that names the variable.
`

func TestPageIsMadeFromSettings(t *testing.T) {
	const page = "../../../../docs/reference/generated/ratelimit.md"
	want := head + table()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): make docs", page, err)
	}
}

// table returns every variable as Markdown tables, one a group.
func table() string {
	var b strings.Builder
	for _, f := range settings.Fields() {
		if f.Group != "" {
			b.WriteString("\n## " + f.Group + "\n\n| variable | default | meaning | what differs here |\n|---|---|---|---|\n")
		}
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		b.WriteString("| `" + f.Name + "` | " + def + " | " + cell(f.Doc) + " | " + cell(f.Differs) + " |\n")
	}
	return b.String()
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
}
