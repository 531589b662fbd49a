package client

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oracle is a throttle by its definition: all requests ever, and a sum over
// those whose slot is one of the last 60.
type oracle struct {
	width, probe, now, sent int64
	ratio                   *big.Rat
	least                   int64
	requests                []oracleRequest
}

type oracleRequest struct {
	slot                int64
	accepted, forgotten bool
}

func (o *oracle) begin(now int64, drawn uint32) bool {
	o.now = max(o.now, now)
	slot := o.now / o.width
	var requests, accepts int64
	for _, r := range o.requests {
		if r.slot > slot-throttleSlots && !r.forgotten {
			requests++
			if r.accepted {
				accepts++
			}
		}
	}
	p := new(big.Rat).Mul(o.ratio, new(big.Rat).SetInt64(accepts))
	p.Sub(new(big.Rat).SetInt64(requests), p)
	p.Quo(p, new(big.Rat).SetInt64(requests+1))
	refused := requests >= o.least && o.now-o.sent < o.probe && big.NewRat(int64(drawn), 1<<32).Cmp(p) < 0
	o.requests = append(o.requests, oracleRequest{slot: slot})
	if !refused {
		o.sent = o.now
	}
	return !refused
}

func TestThrottleOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ratio := rapid.SampledFrom([]float64{1, 1.5, 2, 3.25, 1000}).Draw(t, "ratio")
		opt := ThrottleOptions{
			Ratio: ratio, Window: time.Duration(rapid.Int64Range(int64(time.Second), int64(time.Minute)).Draw(t, "window")),
			Least: rapid.IntRange(1, 20).Draw(t, "least"), Probe: time.Duration(rapid.Int64Range(1, int64(10*time.Second)).Draw(t, "probe")),
		}
		h, err := NewThrottle(opt)
		if err != nil {
			t.Fatal(err)
		}
		o := oracle{
			width: int64(opt.Window) / throttleSlots, probe: int64(opt.Probe), least: int64(opt.Least),
			ratio: new(big.Rat).SetFloat64(ratio),
		}
		type ticket struct {
			number  int64
			request int
		}
		var open []ticket
		now := int64(0)
		steps := []int64{0, 0, 0, 1, o.width / 3, o.width, 7 * o.width, throttleSlots * o.width, -o.width}
		for i := range rapid.IntRange(1, 400).Draw(t, "requests") {
			now = max(now+rapid.SampledFrom(steps).Draw(t, "step"), 0)
			drawn := rapid.OneOf(rapid.Uint32(), rapid.SampledFrom([]uint32{0, 1 << 31, math.MaxUint32})).Draw(t, "drawn")
			number, ok := h.beginAt(now, drawn)
			if want := o.begin(now, drawn); ok != want {
				t.Fatalf("request %d at %d: %v, want %v", i, now, ok, want)
			}
			if ok {
				open = append(open, ticket{number, i})
			}
			// Some of those under way are accepted, in any order, some never.
			for len(open) > 0 && rapid.Bool().Draw(t, "ends") {
				j := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				switch rapid.IntRange(0, 3).Draw(t, "how") {
				case 0, 1:
					h.Accept(open[j].number)
					o.requests[open[j].request].accepted = true
				case 2:
					h.Forget(open[j].number)
					o.requests[open[j].request].forgotten = true
				}
				open = append(open[:j], open[j+1:]...)
			}
			if h.accepts > h.requests {
				t.Fatalf("%d accepts of %d requests", h.accepts, h.requests)
			}
		}
	})
}

func TestThrottleCountsWhatHangs(t *testing.T) {
	h, err := NewThrottle(ThrottleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A hundred requests at once, none of which has ended.
	sent := 0
	for range 100 {
		if _, ok := h.beginAt(1, math.MaxUint32/2); ok {
			sent++
		}
	}
	if sent != 10 {
		t.Errorf("%d of 100 requests were sent to a service that answers none, want the first 10", sent)
	}
}

// TestThrottleProbability: a service that accepts one in four gets K times what
// it accepts, in the long run.
func TestThrottleProbability(t *testing.T) {
	h, err := NewThrottle(ThrottleOptions{Window: time.Minute, Probe: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var asked, sent, accepted int
	for now := int64(0); now < int64(10*time.Minute); now += int64(10 * time.Millisecond) {
		asked++
		ticket, ok := h.beginAt(now, r.Uint32())
		if !ok {
			continue
		}
		sent++
		if r.IntN(4) == 0 {
			accepted++
			h.Accept(ticket)
		}
	}
	// Every request that is sent is accepted with 1/4, so the share that is sent
	// settles where 1 - x = p = 1 - K·x/4, that is at 0: what is sent falls until
	// the service accepts more.
	if share := float64(sent) / float64(asked); share > 0.2 {
		t.Errorf("%d of %d were sent", sent, asked)
	}
	// A service with room for 20 a second of 100 asked: K times that is sent.
	h, err = NewThrottle(ThrottleOptions{Window: time.Minute, Probe: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	asked, sent, accepted = 0, 0, 0
	room, second := 20, int64(0)
	for now := int64(0); now < int64(10*time.Minute); now += int64(10 * time.Millisecond) {
		if s := now / int64(time.Second); s != second {
			second, room = s, 20
		}
		counts := now >= int64(2*time.Minute) // settled
		ticket, ok := h.beginAt(now, r.Uint32())
		if counts {
			asked++
		}
		if !ok {
			continue
		}
		if counts {
			sent++
		}
		if room > 0 {
			room--
			h.Accept(ticket)
			if counts {
				accepted++
			}
		}
	}
	if ratio := float64(sent) / float64(accepted); ratio < 1.9 || ratio > 2.1 {
		t.Errorf("%d were sent for %d accepted: %.2f for one, want 2", sent, accepted, ratio)
	}
	if accepted < 9*480*20/10 {
		t.Errorf("%d were accepted, want nearly %d", accepted, 480*20)
	}
}

func TestThrottleProbes(t *testing.T) {
	h, err := NewThrottle(ThrottleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// An hour of a service that accepts nothing: one a second is sent.
	sent := 0
	var last int64
	for now := int64(0); now < int64(time.Hour); now += int64(10 * time.Millisecond) {
		var ok bool
		if last, ok = h.beginAt(now, 0); ok {
			sent++
		}
	}
	if sent < 3600 || sent > 3620 {
		t.Errorf("%d probes in an hour, want one a second", sent)
	}
	// It is back. What was refused counts too, so the way back takes some windows.
	h.Accept(last)
	refusedLate := 0
	rng := rand.New(rand.NewPCG(1, 2))
	for now := int64(time.Hour); now < int64(time.Hour+7*time.Minute); now += int64(10 * time.Millisecond) {
		ticket, ok := h.beginAt(now, rng.Uint32())
		if ok {
			h.Accept(ticket)
		} else if now > int64(time.Hour+6*time.Minute) {
			refusedLate++
		}
	}
	if refusedLate > 120 {
		t.Errorf("%d requests of 6000 were refused six minutes after the service was back", refusedLate)
	}
}

// TestThrottleConformance: the throttles of all clients refuse alike.
func TestThrottleConformance(t *testing.T) {
	var file struct {
		Throttle []struct {
			Name    string `json:"name"`
			Options struct{ Window, Probe float64 }
			Accept  bool         `json:"accept"`
			Begins  [][4]float64 `json:"begins"` // when, what is drawn, how often, how many are sent
		} `json:"throttle"`
	}
	b, err := os.ReadFile(filepath.Join("testdata", "conformance.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Throttle) == 0 {
		t.Fatal(err)
	}
	for _, c := range file.Throttle {
		h, err := NewThrottle(ThrottleOptions{Window: time.Duration(c.Options.Window * 1e9), Probe: time.Duration(c.Options.Probe * 1e9)})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range c.Begins {
			sent := 0
			for range int(b[2]) {
				if ticket, ok := h.beginAt(int64(b[0]*1e9), uint32(b[1])); ok {
					sent++
					if c.Accept {
						h.Accept(ticket)
					}
				}
			}
			if sent != int(b[3]) {
				t.Errorf("%s: %v sends %d", c.Name, b, sent)
			}
		}
	}
}

func TestThrottleOptions(t *testing.T) {
	for _, opt := range []ThrottleOptions{
		{Ratio: 0.5}, {Ratio: math.NaN()}, {Ratio: 1001}, {Window: time.Millisecond}, {Window: -1}, {Least: -1}, {Probe: -1},
	} {
		if _, err := NewThrottle(opt); err == nil {
			t.Errorf("%+v was taken", opt)
		}
	}
	if _, err := New(Options{Budget: 2 * time.Minute}); err == nil {
		t.Error("a window that is no longer than the calls was taken")
	}
}
