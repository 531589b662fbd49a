package chromium

import (
	"testing"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
)

// TestFamilySetAsideIsShown has a database that refuses some clients: the page shows how
// many of their events were set aside, in red, and zero before.
func TestFamilySetAsideIsShown(t *testing.T) {
	t.Parallel()
	path := filled(t, nil)
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), func(tx rows.Tx) error {
		return tx.Each(`CREATE TRIGGER refuses BEFORE INSERT ON clients WHEN NEW.client LIKE 'odd%' BEGIN SELECT RAISE(ABORT, 'no such client'); END`, [][]any{nil}, nil)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	n := serve(t, "--analytics", "sqlite:"+path, "--events-unhashed", "--events-sample", "1")
	b := browse(t, n.admin)
	b.width(wide)
	type system struct {
		Service struct {
			Events   int64
			Rejected int64 `json:"rejected"`
		}
	}
	for _, c := range []struct {
		client string
		aside  bool
	}{{"even", false}, {"odd", true}} {
		n.spend(c.client, 3)
		n.awaitFor(patience, "the events of "+c.client, func() bool {
			s := admins[system](n, "/v1/analytics/system", nil).Service
			return s.Events > 0 && (s.Rejected > 0) == c.aside
		})
		b.open("/system?live=0")
		b.until(`document.querySelector("[data-figure=set-aside-queue]")`)
		for _, figure := range []string{"set-aside", "set-aside-queue"} {
			want := int64(0)
			if figure == "set-aside" {
				want = admins[system](n, "/v1/analytics/system", nil).Service.Rejected
			}
			if got := b.figure(figure); got != want {
				t.Errorf("%s of %s: the page shows %d, the service says %d", figure, c.client, got, want)
			}
		}
		if red := js[bool](b, `document.querySelector("[data-figure=set-aside]").closest("dd").classList.contains("fault")`); red != c.aside {
			t.Errorf("%s: shown in red: %v", c.client, red)
		}
	}
}
