package settings_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

var update = flag.Bool("update", false, "write the tables into docs/how-to/envoy-ratelimit.md")

const (
	page  = "../../../../docs/how-to/envoy-ratelimit.md"
	begin = "<!-- variables: made by go test ./internal/compat/envoy/settings -update -->\n"
	end   = "<!-- end of variables -->\n"
)

func TestPageIsMadeFromSettings(t *testing.T) {
	had, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(had), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks %q or %q", page, begin, end)
	}
	want := before + begin + table() + end + after
	if want == string(had) {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: go test ./internal/compat/envoy/settings -update", page)
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table returns every variable as Markdown tables, one a group.
func table() string {
	var b strings.Builder
	for _, f := range settings.Fields() {
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

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;").Replace(text)
}
