package report

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table := NewTable("limiter", "hot key")
	table.Row("ours", "48 (46–51)")
	table.Row("a longer name")
	want := `| limiter       |    hot key |
| ------------- | ---------: |
| ours          | 48 (46–51) |
| a longer name |            |
`
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestReplaceTouchesItsSectionOnly(t *testing.T) {
	document := "head\n<!-- begin a -->\nold\n<!-- end a -->\nmiddle\n<!-- begin b -->\n<!-- end b -->\n"
	got, err := Replace(document, "a", "new\n")
	if err != nil {
		t.Fatal(err)
	}
	want := "head\n<!-- begin a -->\n\nnew\n\n<!-- end a -->\nmiddle\n<!-- begin b -->\n<!-- end b -->\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again, err := Replace(got, "a", "new"); err != nil || again != got {
		t.Errorf("a second time: %q, %v", again, err)
	}
}

func TestReplaceRefusesWhatItCannotPlace(t *testing.T) {
	f := func(document, want string) {
		t.Helper()
		if _, err := Replace(document, "a", "new"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", document, err, want)
		}
	}
	f("", "once each")
	f("<!-- begin a -->\n<!-- end a --><!-- begin a -->\n", "once each")
	f("<!-- end a -->\n<!-- begin a -->\n", "ends before it begins")
	f("<!-- begin a -->\n<!-- begin b -->\n<!-- end a -->\n", "another within")
}
