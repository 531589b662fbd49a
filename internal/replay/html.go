package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/weirlimit/weir/internal/figures"
)

//go:embed report.html
var page string

// bars is the size of a chart in the page, in its own units.
const barsWidth, barsHeight = 960, 160

// WriteHTML writes the report as one page that needs nothing else: no script, no
// style or picture from elsewhere.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"n":      figures.Thousands,
		"count":  figures.Count,
		"pct":    percent,
		"moment": moment,
		"title":  func(l Limit) string { return l.title() },
		"chart":  Outcome.chart,
		"name":   Outcome.name,
		"list":   func(o ...any) []any { return o },
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// chart draws requests and refusals over time as SVG.
func (o Outcome) chart() template.HTML {
	n := len(o.Series.Allowed)
	if n == 0 {
		return ""
	}
	var top int64 = 1
	for i := range n {
		top = max(top, o.Series.Allowed[i]+o.Series.Refused[i])
	}
	height := func(v int64) float64 { return float64(v) / float64(top) * barsHeight }
	width := float64(barsWidth) / float64(n)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="requests and refusals over time">`, barsWidth, barsHeight)
	for i := range n {
		refused, allowed := height(o.Series.Refused[i]), height(o.Series.Allowed[i])
		x := float64(i) * width
		if allowed > 0 {
			fmt.Fprintf(&b, `<rect class="allowed" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, x, barsHeight-refused-allowed, width, allowed)
		}
		if refused > 0 {
			fmt.Fprintf(&b, `<rect class="refused" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, x, barsHeight-refused, width, refused)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // of numbers alone
}
