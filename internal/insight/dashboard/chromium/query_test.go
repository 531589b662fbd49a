package chromium

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
)

// gate stands before an admin port and holds back what the page asks for until a test
// lets it go on.
type gate struct {
	mu sync.Mutex
	// holds are parts of addresses whose questions are held.
	holds []string
	// held are closed to let the questions go on that came to be held, in the order in which
	// they came, and then nil. asked counts all questions by path.
	held  []chan struct{}
	asked map[string]int
}

// behindGate starts a node that has met traffic, a gate before it, and a tab that asks
// through the gate. span is the range of the traffic as parameters of a page.
func behindGate(t *testing.T) (n *node, g *gate, b *tab, span string) {
	t.Helper()
	events, span := throttled(time.Now().Truncate(time.Minute))
	n = serve(t, "--analytics", "sqlite:"+filled(t, events))
	g, base := before(t, n)
	b = browse(t, base)
	b.width(wide)
	return n, g, b, span
}

// before starts a gate before a node and returns its address.
func before(t *testing.T, n *node) (*gate, string) {
	t.Helper()
	to, err := url.Parse(n.admin)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{asked: map[string]int{}}
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = to.Host
		r.Out.Header.Del("Origin")
		r.Out.Header.Del("Sec-Fetch-Site")
	}, FlushInterval: -1, ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
		w.WriteHeader(http.StatusBadGateway)
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if released := g.note(r.URL.RequestURI()); released != nil {
			select {
			case <-released:
			case <-r.Context().Done():
				return
			}
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	t.Cleanup(g.open)
	return g, s.URL
}

// note counts a question. It returns what is closed when the question may go on, nil if it
// is not held.
func (g *gate) note(address string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[strings.SplitN(address, "?", 2)[0]]++
	for _, part := range g.holds {
		if strings.Contains(address, part) {
			released := make(chan struct{})
			g.held = append(g.held, released)
			return released
		}
	}
	return nil
}

// hold holds what contains one of parts from now on; nothing if there is none.
func (g *gate) hold(parts ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = parts
}

// count returns how often a path was asked for.
func (g *gate) count(path string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[path]
}

// waiting returns how many questions came that are or were held.
func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held)
}

// let lets the question with a number go on.
func (g *gate) let(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(number)
}

// release lets a question go on, once. Requires: mu.
func (g *gate) release(number int) {
	if released := g.held[number]; released != nil {
		close(released)
		g.held[number] = nil
	}
}

// open lets everything go on.
func (g *gate) open() {
	g.hold()
	g.mu.Lock()
	defer g.mu.Unlock()
	for number := range g.held {
		g.release(number)
	}
}

// TestFamilySlowAnswersAreDrawn holds the answers of every page while it refreshes: what is
// asked for is not asked for once more, and is drawn when it comes.
func TestFamilySlowAnswersAreDrawn(t *testing.T) {
	t.Parallel()
	n, g, b, span := behindGate(t)
	for _, p := range []struct{ path, question, drawn string }{
		{"/?", "/v1/analytics/overview", `document.querySelector("[data-figure=decisions]")`},
		{"/?by=rule", "/v1/analytics/series", `document.querySelector(".uplot")`},
		{"/rules?", "/v1/analytics/rules", `document.querySelector("[data-test=rules] tbody tr")`},
		{"/rule?domain=api&rule=client_id&limit=client_id", "/v1/analytics/rates", `document.querySelector("[data-test=line]")`},
		{"/rule?domain=api&rule=client_id", "/v1/analytics/rule", `document.querySelector("[data-figure=keys_limited]")`},
		{"/clients?", "/v1/analytics/clients", `document.querySelector("[data-test=clients] tbody tr")`},
		{"/client?key=client-a", "/v1/analytics/client", `document.querySelector("main .facts")`},
		{"/upstream?", "/v1/analytics/upstream", `document.querySelector("[data-figure=admitted]")`},
		{"/accuracy?", "/v1/analytics/accuracy", `document.querySelector("[data-test=coverage]")`},
		{"/system?", "/v1/analytics/system", `document.querySelector("[data-test=pipeline]")`},
		{"/explain?domain=api&ask=client_id%3Done", "/v1/explain", `document.querySelector("[data-test=decision]")`},
	} {
		t.Run(p.question, func(t *testing.T) {
			b := &tab{t: t, ctx: b.ctx, base: b.base}
			// The incidents ask for lines of their own.
			once := map[bool]int{true: 2, false: 1}[p.question == "/v1/analytics/series"]
			begun, waited := g.count(p.question), g.waiting()
			g.hold(p.question)
			b.run(navigate(b.base + "/ui" + p.path + "&live=0" + span))
			n.awaitFor(patience, "the first question", func() bool { return g.waiting() >= waited+once })
			for range 4 {
				b.press(".bar", "Refresh")
			}
			if asked := g.count(p.question) - begun; asked != once {
				t.Errorf("%d questions while the first was under way", asked)
			}
			g.hold()
			for i := range once {
				g.let(waited + i)
			}
			b.until(p.drawn)
			// What was wished for meanwhile is asked for now, once.
			n.awaitFor(patience, "the refresh", func() bool { return g.count(p.question)-begun >= 2*once })
			b.until(settled)
			if asked := g.count(p.question) - begun; asked != 2*once {
				t.Errorf("%d questions for one page and a refresh", asked)
			}
			g.open()
		})
	}
}

// TestFamilyLivePageIsDrawn follows a live page whose clock runs a hundred times as fast,
// while one answer takes longer than many refreshes.
func TestFamilyLivePageIsDrawn(t *testing.T) {
	t.Parallel()
	n, g, b, span := behindGate(t)
	b.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const real = window.setInterval; window.setInterval = (f, ms, ...more) => real(f, ms / 100, ...more); }`}))
	const slow, quick = "/v1/analytics/overview", "/v1/analytics/series"
	g.hold(slow)
	b.run(navigate(b.base + "/ui/?" + strings.TrimPrefix(span, "&")))
	for turn := range 3 {
		seen := g.count(quick)
		n.awaitFor(patience, "ten refreshes", func() bool { return g.count(quick) > seen+10 })
		if asked := g.count(slow); asked != turn+1 {
			t.Fatalf("%d questions in the time of %d answers", asked, turn)
		}
		g.let(turn)
		n.awaitFor(patience, "the question after an answer", func() bool { return g.waiting() == turn+2 })
		b.until(`document.querySelector("[data-figure=decisions]") && !document.querySelector("[data-test=unanswered]")`)
	}
	g.open()
}

// TestFamilyNewestQuestionIsAnswered changes the question while it is asked, and lets the
// answers come in every order: the page shows the one to the last question, and says
// meanwhile what it shows.
func TestFamilyNewestQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	n, g, b, span := behindGate(t)
	decisions := map[string]int64{}
	for _, m := range mets {
		decisions[m.rule] += m.allowed + m.refused + m.delayed + m.shadow
	}
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		b.open("/?live=0" + span + "&rule=export")
		if got := b.figure("decisions"); got != decisions["export"] {
			t.Fatalf("%d decisions, want %d", got, decisions["export"])
		}
		waited := g.waiting()
		g.hold("/v1/analytics/overview")
		for i, rule := range []string{"client_id", "remote_address"} {
			b.press(".bar", "Filter")
			b.choose("#filter-field", "Rule")
			b.fill("#filter-value", rule)
			b.press(".popover", "Add")
			n.awaitFor(patience, "the question of "+rule, func() bool { return g.waiting() > waited+i })
		}
		b.until(`document.querySelector("[data-test=outdated]")`)
		if got := b.figure("decisions"); got != decisions["export"] {
			t.Errorf("before an answer the page shows %d decisions", got)
		}
		g.hold()
		for _, i := range order {
			g.let(waited + i)
		}
		b.until(fmt.Sprintf(`document.querySelector("[data-figure=decisions]")?.textContent === %q && !document.querySelector("[data-test=outdated]")`, written(decisions["remote_address"])))
		b.press(".bar", "Refresh")
		b.until(settled)
		if got := b.figure("decisions"); got != decisions["remote_address"] {
			t.Errorf("in the end the page shows %d decisions, want %d", got, decisions["remote_address"])
		}
		g.open()
	}
}
