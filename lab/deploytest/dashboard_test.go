package deploytest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// dashboard is what is looked at of deploy/grafana/weir.json.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
			Datasource source
		}
	}
	Annotations struct {
		List []struct {
			Name, Expr string
			Datasource source
		}
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Datasource               source
		Targets                  []struct {
			RefID, Expr string
			Datasource  source
		}
	}
}

type source struct{ Type, UID string }

func board(t testing.TB) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// query is one question of the dashboard.
type query struct{ panel, expr string }

// queries returns what the dashboard asks Prometheus, with variables as they stand.
func queries(t testing.TB) []query {
	t.Helper()
	d := board(t)
	var out []query
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			out = append(out, query{p.Title + " " + q.RefID, q.Expr})
		}
	}
	for _, a := range d.Annotations.List {
		out = append(out, query{"annotation " + a.Name, a.Expr})
	}
	for _, v := range d.Templating.List {
		if m, ok := v.Query.(map[string]any); ok {
			text, _ := m["query"].(string)
			// label_values(SELECTOR, LABEL) asks for the series of a selector.
			selector, _, _ := strings.Cut(strings.TrimPrefix(text, "label_values("), ", ")
			if i := strings.LastIndex(text, ", "); i > 0 {
				selector = strings.TrimPrefix(text[:i], "label_values(")
			}
			out = append(out, query{"variable " + v.Name, selector})
		}
	}
	return out
}

// The dashboard has the rows that it should, needs no plugin, and asks only the
// source that is chosen; panels do not lie on each other.
func TestDashboard(t *testing.T) {
	d := board(t)
	if d.SchemaVersion < 41 || d.UID == "" || d.Title == "" {
		t.Errorf("schema %d, uid %q, title %q", d.SchemaVersion, d.UID, d.Title)
	}
	own := source{"prometheus", "${datasource}"}
	var rows []string
	ids := map[int]bool{}
	type cell struct{ x, y int }
	taken := map[cell]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: its id %d is another's", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[cell{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q, or outside", p.Title, other)
				}
				taken[cell{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		if !slices.Contains([]string{"stat", "timeseries", "table"}, p.Type) {
			t.Errorf("%s: %s needs a plugin", p.Title, p.Type)
		}
		if p.Description == "" || len(p.Targets) == 0 || p.Datasource != own {
			t.Errorf("%s: description %q, %d queries, of %v", p.Title, p.Description, len(p.Targets), p.Datasource)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.Datasource != own || refs[q.RefID] {
				t.Errorf("%s %s: of %v, or twice", p.Title, q.RefID, q.Datasource)
			}
			refs[q.RefID] = true
			if !strings.Contains(q.Expr, `job=~"$job"`) || !strings.Contains(q.Expr, `instance=~"$instance"`) {
				t.Errorf("%s %s does not go by the job and the node that are chosen", p.Title, q.RefID)
			}
		}
	}
	if want := []string{"Overview", "Rules", "Stores", "Front ends", "Process"}; !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	if v := d.Templating.List; len(v) < 5 || v[0].Name != "datasource" || v[0].Type != "datasource" {
		t.Errorf("variables: %+v", v)
	}
}
