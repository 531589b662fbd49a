package broker

import (
	"bytes"
	"compress/gzip"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

func losses(n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		out[i] = event.Event{Source: "n/1", Sequence: uint64(i + 1), Time: time.Unix(1_700_000_000, 0).UTC(), Loss: &event.Loss{Dropped: uint64(i)}}
	}
	return out
}

func TestPackUnpack(t *testing.T) {
	for _, n := range []int{0, 1, 5000} {
		want := losses(n)
		messages, err := Pack(want)
		if err != nil {
			t.Fatal(err)
		}
		var got []event.Event
		ids := map[string]bool{}
		for _, m := range messages {
			if len(m.Body) > packed+event.MaxEncoded {
				t.Errorf("a message of %d bytes", len(m.Body))
			}
			events, unread := Unpack(event.ContentTypeBatch, m.Encoding, m.Body)
			if len(unread) > 0 {
				t.Fatal(unread[0].Err)
			}
			got, ids[m.ID] = append(got, events...), true
		}
		if len(got) != n || n > 0 && !reflect.DeepEqual(got, want) || len(ids) != len(messages) || n == 5000 && len(messages) < 2 {
			t.Errorf("%d events of %d in %d messages of %d names", len(got), n, len(messages), len(ids))
		}
		again, err := Pack(want)
		if err != nil || !slices.EqualFunc(again, messages, func(a, b Message) bool { return a.ID == b.ID }) {
			t.Error("the same events have other names", err)
		}
	}
}

func TestPackRefusesWhatNobodyReads(t *testing.T) {
	e := event.Event{Source: "n/1", Sequence: 1, Record: &event.Record{Key: strings.Repeat("k", event.MaxEncoded)}}
	if _, err := Pack([]event.Event{e}); err == nil || !strings.Contains(err.Error(), "n/1/1 has") {
		t.Errorf("got %v", err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	one, err := encode(&losses(1)[0])
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, maxMessage+1)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		contentType, encoding string
		body                  []byte
		events, unread        int
	}{
		{event.ContentType + "; charset=UTF-8", "", one, 1, 0},
		{event.ContentTypeBatch, "identity", []byte("[" + string(one) + `,{"specversion":"2.0"},` + string(one) + "]"), 2, 1},
		{event.ContentTypeBatch, "", one, 0, 1},
		{event.ContentTypeBatch, "gzip", one, 0, 1},
		{event.ContentTypeBatch, "br", one, 0, 1},
		{"", "", one, 0, 1},
		{"text/plain", "", one, 0, 1},
		{event.ContentType, "gzip", bomb.Bytes(), 0, 1},
	} {
		events, unread := Unpack(c.contentType, c.encoding, c.body)
		if len(events) != c.events || len(unread) != c.unread {
			t.Errorf("%s %s %.40q: %d events, %d unread", c.contentType, c.encoding, c.body, len(events), len(unread))
		}
	}
}

func FuzzUnpack(f *testing.F) {
	messages, err := Pack(losses(2))
	if err != nil {
		f.Fatal(err)
	}
	body, err := inflate("gzip", messages[0].Body)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(event.ContentTypeBatch, "gzip", messages[0].Body)
	f.Add(event.ContentTypeBatch, "", body)
	f.Fuzz(func(t *testing.T, contentType, encoding string, body []byte) {
		events, unread := Unpack(contentType, encoding, body)
		for _, u := range unread {
			if u.Err == nil {
				t.Error("unread for no reason")
			}
		}
		if _, err := Pack(events); err != nil && !strings.Contains(err.Error(), "year") && !strings.Contains(err.Error(), "has") {
			t.Error(err)
		}
	})
}

func FuzzParse(f *testing.F) {
	form := Form{Scheme: "q", Port: "1", TLSPort: "2", Parameters: []string{"group"}, Example: "q://h/t"}
	for _, s := range []string{"q://h/t", "qs://u:p%40@h:5,[::1],i:6/a/b?group=x&tls_server_name=y", "q://h#f", "q://u:SECRET@h:99999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := form.Parse(text)
		if err != nil {
			if strings.Contains(text, ":SECRET@h") && strings.Count(text, "SECRET") == 1 && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the password is shown: %v", err)
			}
			return
		}
		if len(a.Hosts) == 0 || strings.HasPrefix(text, "qs:") != (a.TLS != nil) || (a.User == "") != (a.Password == "") {
			t.Errorf("%q: %+v", text, a)
		}
	})
}

// The largest event that rules can make fits: names as long as they may be, of letters
// that take the most room, all that a record or a roll-up tells, and every bucket.
func TestFamilyLargestEventFits(t *testing.T) {
	const names = rules.MaxNames + len(" (banned)") // of a limit that bans a key
	for _, letter := range []string{"n", "<", "\x01", "é", "\xff"} {
		long := func(n int) string { return strings.Repeat(letter, n/len(letter)) }
		for _, split := range [][3]int{{names, 0, 0}, {0, names, 0}, {0, 0, names}, {names / 3, names / 3, names / 3}, {1, names / 2, names / 2}} {
			place := event.LimitRef{Name: limits.Name{Domain: long(split[0]), Rule: long(split[1]), Limit: long(split[2])}, Algorithm: "sliding_window_counter", Allowance: 1 << 52, PeriodMS: 1 << 52, Burst: 1 << 52}
			head := event.Event{Source: strings.Repeat("n", 200) + "/0123456789abcdef", Sequence: 1 << 63, Time: time.Now(), Region: strings.Repeat("r", event.MaxRegion)}
			record := head
			record.Record = &event.Record{LimitRef: place, Key: long(116), Outcome: "shadow_refused", Count: 1 << 62, Cost: 1 << 62, Decisive: 1 << 62, Early: 1 << 62, Least: 1 << 62, Source: "region",
				About: &event.About{Address: long(64), Network: long(64), Method: long(event.MaxMethod), Host: long(event.MaxHost), Path: long(event.MaxPath), User: long(event.MaxUser), Tier: long(event.MaxTier), Agent: "browser"}}
			for i := range event.MaxArrivals {
				record.Record.Arrivals = append(record.Record.Arrivals, event.Arrival{AtUS: 1_000_000 + int64(i), Cost: 1 << 52})
			}
			rollup := head
			all := make([]event.LatencyCount, 300)
			for i := range all {
				all[i] = event.LatencyCount{Bucket: i, Count: 1 << 40}
			}
			rollup.Rollup = &event.Rollup{From: time.Now(), To: time.Now(), LimitRef: place, Counts: map[string]uint64{}, Requests: map[string]uint64{"allowed": 1 << 62, "refused": 1 << 62, "failed": 1 << 62},
				Latency: &event.Latency{Every: 256, Counts: all}, Responses: &event.ResponseTotals{OK: 1 << 62, Times: all}}
			for _, o := range []string{"allowed", "refused", "soft", "borrowed", "delayed", "shadow_refused", "estimated", "degraded"} {
				rollup.Rollup.Counts[o] = 1 << 62
			}
			for _, e := range []event.Event{record, rollup} {
				b, err := e.Encode()
				if err != nil || len(b) > event.MaxEncoded {
					t.Errorf("%q, %v: record %v, %d bytes: %v", letter, split, e.Record != nil, len(b), err)
				}
			}
		}
	}
}

// One event that does not fit is named, and all others are packed, wherever it stands and
// however many there are.
func TestFamilyPackSetsAside(t *testing.T) {
	for _, n := range []int{1, 2, 3, 1000, 5000} {
		for _, bad := range [][]int{{0}, {n / 2}, {n - 1}, {0, n - 1}, {0, 1, 2}} {
			events := losses(n)
			var want []int
			for _, i := range bad {
				if i < n && !slices.Contains(want, i) {
					events[i].Loss = nil
					events[i].Record = &event.Record{LimitRef: event.LimitRef{Name: limits.Name{Rule: strings.Repeat("r", 22_000)}}}
					want = append(want, i)
				}
			}
			messages, err := Pack(events)
			var unfit *event.Invalid
			if !errors.As(err, &unfit) || !slices.Equal(unfit.Events, want) {
				t.Fatalf("%d of %d: %v", bad, n, err)
			}
			got := 0
			for _, m := range messages {
				all, unread := Unpack(event.ContentTypeBatch, m.Encoding, m.Body)
				if got += len(all); len(unread) > 0 {
					t.Error(unread[0].Err)
				}
			}
			if got != n-len(want) {
				t.Errorf("%d of %d: %d events are packed", bad, n, got)
			}
		}
	}
}
