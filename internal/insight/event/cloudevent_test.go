package event

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/limits"
)

func examples() []Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC)
	place := LimitRef{Name: limits.Name{Domain: "api", Rule: "login_é", Limit: "5/minute"}, Algorithm: "sliding_log", Allowance: 5, PeriodMS: 60_000, Burst: 5}
	return []Event{
		{Source: "a/01", Sequence: 1, Time: at, Record: &Record{First: at, Last: at, LimitRef: place, Key: "k\x1f\"", Outcome: "refused",
			Count: 3, Decisive: 2, Cost: 4, Early: 1, Least: -1, RetryMS: never, Source: "store", Every: 1,
			About: &About{Address: "203.0.113.7", Network: "203.0.113.0/24", Method: "GET", Host: "api.example", Path: "/login", User: "ann",
				Tier: "gold", Agent: "curl", Users: 1, Agents: 2, Paths: 3, Addresses: 16},
			Answers:  &Answers{Count: 15, OK: 1, Redirect: 2, Denied: 3, ClientError: 4, ServerError: 5, TotalMS: 90, LongestMS: 40},
			Arrivals: []Arrival{{0, 1}, {1_500, 3}, {1_500, 0}}, ArrivalsCut: true}},
		{Source: "a/01", Sequence: 2, Time: at, Rollup: &Rollup{From: at, To: at.Add(time.Minute), LimitRef: place, Counts: map[string]uint64{"allowed": 1 << 60}}},
		{Source: "a/01", Sequence: 2, Time: at, Region: "eu-west.1", Rollup: &Rollup{From: at, To: at.Add(time.Minute), LimitRef: place, Counts: map[string]uint64{"allowed": 7},
			Latency:   &Latency{Every: 256, Counts: []LatencyCount{{0, 1}, {9, 1 << 40}, {LatencyBuckets - 1, 3}}},
			Responses: &ResponseTotals{OK: 1, Redirect: 2, Denied: 3, ClientError: 4, ServerError: 5, TotalUS: 9000, LongestUS: 800, Times: []LatencyCount{{100, 6}, {110, 9}}}}},
		{Source: "a/01", Sequence: 3, Time: at, Loss: &Loss{Dropped: 1, Discarded: 2, Rollups: 3, Failed: 4}},
	}
}

func TestEncodeDecode(t *testing.T) {
	for _, want := range examples() {
		b, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v\nof %s", got, err, want, b)
		}
	}
}

// The attributes that CloudEvents 1.0.2 asks for are there, in its JSON form.
func TestEncodeIsACloudEvent(t *testing.T) {
	for _, e := range examples() {
		b, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		for _, required := range []string{"id", "source", "specversion", "type"} {
			if s, ok := m[required].(string); !ok || s == "" {
				t.Errorf("%s is missing in %s", required, b)
			}
		}
		if _, err := time.Parse(time.RFC3339, m["time"].(string)); err != nil {
			t.Error(err)
		}
		for name := range m {
			if strings.ToLower(name) != name || strings.ContainsAny(name, "_-") {
				t.Errorf("attribute %q: names are of lower-case letters and digits", name)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := examples()[0].Encode()
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]uint64{}
	for i := range maxOutcomes + 1 {
		outcomes[strings.Repeat("o", i+1)] = 1
	}
	b, err := (&Event{Source: "n", Sequence: 1, Rollup: &Rollup{Counts: outcomes}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	many := string(b)
	for _, c := range []struct{ old, new, want string }{
		{string(good), "", "not a CloudEvent"},
		{`"1.0"`, `"0.3"`, "version"},
		{`/weir/a/01`, `/other/a`, "not a node"},
		{`"id":"1"`, `"id":"0"`, "id"},
		{`"id":"1"`, `"id":"one"`, "id"},
		{"record.v2", "record.v3", "not known"},
		{`"count":3`, `"count":"3"`, "data of"},
		{string(good), `{"specversion":"1.0","id":"1","source":"/weir/n","type":"` + TypeLoss + `","time":"2026-01-02T03:04:05Z"}`, "without data"},
		{string(good), strings.Repeat(" ", MaxEncoded+1), "more than"},
		{`"/login"`, `"/` + strings.Repeat("p", MaxPath) + `"`, "path of 129 bytes"},
		{`"ann"`, `"` + strings.Repeat("u", MaxUser+1) + `"`, "user of 65 bytes"},
		{`"agent":"curl"`, `"agent":"Curl"`, "no class"},
		{`"users":1`, `"users":-1`, "different"},
		{`"addresses":16`, `"addresses":17`, "different"},
		{`"redirect":2`, `"redirect":1`, "add up"},
		{`"server_error":5`, `"server_error":9223372036854775807`, "add up"},
		{`"client_error":4`, `"client_error":-4`, "add up"},
		{`"total_ms":90`, `"total_ms":39`, "longest"},
		{`[1500,3]`, `[1500,3,1]`, "has two"},
		{`"count":3`, `"count":-3`, "negative"},
		{`"cost":4`, `"cost":-4`, "negative"},
		{`"retry_ms":-1`, `"retry_ms":-2`, "negative"},
		{string(good), many, "counts of 33"},
		{`[1500,3]`, `[1501,3]`, "in order"},
		{`[1500,3]`, `[1500,-3]`, "in order"},
		{`[0,1]`, `[0,1]` + strings.Repeat(`,[0,1]`, MaxArrivals), "259 arrivals"},
	} {
		if _, err := Decode([]byte(strings.Replace(string(good), c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s -> %.60s: got %v, want an error with %q", c.old, c.new, err, c.want)
		}
	}
}

func TestDecodeRefusesLatencies(t *testing.T) {
	good, err := examples()[2].Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`[9,`, `[0,`, "not behind"},
		{`[0,1]`, `[0,1,2]`, "a bucket from 0"},
		{`[239,3]`, `[240,3]`, "a bucket from 0"},
		{`[0,1]`, `[-1,1]`, "data of"},
		{`"sample_one_in":256`, `"sample_one_in":0`, "one in one"},
		{`[110,9]`, `[100,9]`, "answered: bucket 100 is not behind"},
		{`[110,9]`, `[240,9]`, "a bucket from 0"},
		{`"server_error":5`, `"server_error":-5`, "data of"},
		{`"eu-west.1"`, `"` + strings.Repeat("e", MaxRegion+1) + `"`, "region of 64 bytes"},
	} {
		text := strings.Replace(string(good), c.old, c.new, 1)
		if text == string(good) {
			t.Fatalf("%s is not in %s", c.old, good)
		}
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s -> %.60s: got %v, want an error with %q", c.old, c.new, err, c.want)
		}
	}
}

// Whatever is decoded can be encoded, and is then decoded as the same.
func FuzzDecode(f *testing.F) {
	for _, e := range examples() {
		b, err := e.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := Decode(b)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil {
			return // a time whose year has five digits
		}
		back, err := Decode(again)
		if err != nil {
			if len(again) > MaxEncoded {
				return
			}
			t.Fatalf("%s -> %s: %v", b, again, err)
		}
		was, _, _ := e.content()
		if is, _, _ := back.content(); is != was {
			t.Errorf("%s -> %s", b, is)
		}
		if !back.Time.Equal(e.Time) || back.ID() != e.ID() || back.PartitionKey() != e.PartitionKey() {
			t.Errorf("%s -> %+v", b, back)
		}
		if e.Rollup != nil {
			if a := e.Rollup.Responses; a != nil && len(a.Times) == 0 {
				a.Times = nil // which is left out
			}
			if was, is := e.Rollup, back.Rollup; !same(was.Latency, is.Latency) || !same(was.Responses, is.Responses) {
				t.Errorf("%s -> %s", b, again)
			}
		}
		if e.Record != nil {
			if was, is := e.Record, back.Record; !same(was.About, is.About) || !same(was.Answers, is.Answers) || !slices.Equal(was.Arrivals, is.Arrivals) {
				t.Errorf("%s -> %s", b, again)
			}
		}
	})
}

func same[T any](a, b *T) bool { return reflect.DeepEqual(a, b) }
