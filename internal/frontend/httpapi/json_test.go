package httpapi

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// lone finds what may be half a surrogate pair.
var lone = regexp.MustCompile(`(?i)\\ud[89a-f]`)

// standard reads a body of /shouldAllowRequest by encoding/json, with the strictness that
// encoding/json does not have added. sure is false where the two may differ by
// design.
func standard(b []byte) (clientID string, ok, sure bool) {
	if !utf8.Valid(b) || lone.Match(b) {
		return "", false, false
	}
	names := map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", false, true
	}
	id, stamp := json.RawMessage(nil), json.RawMessage(nil)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return "", false, true
		}
		name, isString := t.(string)
		var v json.RawMessage
		if !isString || names[name] || dec.Decode(&v) != nil {
			return "", false, true
		}
		names[name] = true
		switch name {
		case "clientId":
			id = v
		case "timestamp":
			stamp = v
		default:
			return "", false, true
		}
	}
	if _, err := dec.Token(); err != nil {
		return "", false, true
	}
	if _, err := dec.Token(); err != io.EOF || !json.Valid(b) {
		return "", false, true
	}
	if id == nil || id[0] != '"' || json.Unmarshal(id, &clientID) != nil || clientID == "" || len(clientID) > maxValue {
		return "", false, true
	}
	if stamp != nil && string(stamp) != "null" {
		var s string
		if stamp[0] != '"' || json.Unmarshal(stamp, &s) != nil || !isRFC3339(s) || len(s) > 64 {
			return "", false, true
		}
	}
	return clientID, true, true
}

// FuzzAllowRequest reads bodies by our reader and by encoding/json: both take
// the same ones and see the same client.
func FuzzAllowRequest(f *testing.F) {
	for _, s := range []string{
		`{"clientId":"123","timestamp":"2023-07-13T07:20:50.52Z"}`, `{"clientId":"\u00fc\ud83d\ude00\n\/\\\"","timestamp":null}`,
		`{"clientId":""}`, `{"clientId":"a","clientId":"b"}`, `{"client\u0049d":"a"}`, ` {} `, `[]`, `{"clientId":"a"}{`, `{"clientId":1e5}`,
		`{"clientId":"\ud800"}`, "{\"clientId\":\"\x7f\"}", "\ufeff{}", `{"timestamp":"x","clientId":["a",{"b":-0.0}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		want, ok, sure := standard(b)
		var r reader
		r.reset(bytes.Clone(b))
		got := readAllow(&r)
		if !sure {
			if r.err == nil && !utf8.ValidString(got) {
				t.Fatalf("%q: read as %q, not UTF-8", b, got)
			}
			return
		}
		if (r.err == nil) != ok || ok && got != want {
			t.Fatalf("%q: read as %q, %v; encoding/json: %q, %t", b, got, r.err, want, ok)
		}
	})
}

// repeated returns a name that an object has twice in the value that comes next, "" for none.
func repeated(dec *json.Decoder) (twice string) {
	t, err := dec.Token()
	if err != nil {
		return ""
	}
	names := map[string]bool{}
	for (t == json.Delim('{') || t == json.Delim('[')) && dec.More() {
		if t == json.Delim('{') {
			name, _ := dec.Token()
			if names[name.(string)] {
				return name.(string)
			}
			names[name.(string)] = true
		}
		if twice = repeated(dec); twice != "" {
			return twice
		}
	}
	if t == json.Delim('{') || t == json.Delim('[') {
		_, _ = dec.Token()
	}
	return ""
}

// FuzzCheck reads any body as a check and as a batch. What is taken holds to
// every bound; what is not is told by a pointer; nothing panics.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		`{"domain":"api","descriptors":[{"entries":[{"key":"a","value":"b"}],"cost":2,"peek":true}],"cost":1,"priority":3,"lease":"x"}`,
		`{"checks":[{"descriptors":[{"entries":{"a":"b","c":"d"}}]},{"descriptors":[{"entries":{"\u0061":"\u0062"}}],"cost":0}]}`,
		`{"checks":[]}`, `{"descriptors":[{"entries":[{"key":"a"}]}],"cost":9007199254740993}`, `{"descriptors":[{"entries":{"a":"b","a":"c"}}]}`,
		`{"cost":null,"descriptors":[{"entries":{"a":"b"}}],"cost":3}`, `{"lease":null,"lease":null,"descriptors":[{"entries":{"a":"\u0000\u001f"}}]}`,
		`{"descriptors":[{"entries":{"a":"b"},"cost":null,"cost":2}]}`, `{"descriptors":[{"entries":{"a":"b"}}],"cost":-0}`, `{"Descriptors":[{"entries":{"a":"b"}}]}`,
		strings.Repeat(`[`, 100), `{"descriptors":[{"entries":{"a/b~c":7}}]}`,
	} {
		f.Add([]byte(s))
	}
	l := weir.PerMinute(1, algorithm.TokenBucket)
	store := memory.New(memory.Options{})
	f.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, weir.Limits{l}, weir.Options{})
	if err != nil {
		f.Fatal(err)
	}
	checks := &queries{limiter: lim, domain: "api"}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &call{}
		c.reader.reset(bytes.Clone(b))
		checks.parseBody(c, mayPeek|mayLease|mayHaveChecks)
		defer c.query.release(lim)
		if e := c.reader.err; e != nil {
			if e.detail == "" || !strings.HasPrefix(e.pointer, "#") || !utf8.ValidString(e.Error()) || strings.ContainsAny(e.pointer, "\" \r\n") {
				t.Fatalf("%q: error %+v", b, e)
			}
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is taken and is not JSON", b)
		}
		if name := repeated(json.NewDecoder(bytes.NewReader(b))); name != "" {
			t.Fatalf("%q is taken and has %q twice", b, name)
		}
		if n := len(c.query.reqs); n == 0 || n > maxChecks || n > 1 && !c.query.batch {
			t.Fatalf("%q: %d checks", b, n)
		}
		for _, r := range c.query.reqs {
			if r.Domain == "" || len(r.Descriptors) == 0 || len(r.Descriptors) > maxDescriptors || r.Cost < 0 || r.Cost > weir.MaxCost {
				t.Fatalf("%q: %+v", b, r)
			}
			for _, d := range r.Descriptors {
				if len(d.Entries) == 0 || len(d.Entries) > maxEntries || d.Cost < 0 || d.Cost > weir.MaxCost {
					t.Fatalf("%q: %+v", b, d)
				}
				for _, e := range d.Entries {
					if e.Key == "" || len(e.Key) > maxKey || len(e.Value) > maxValue || !utf8.ValidString(e.Key+e.Value) {
						t.Fatalf("%q: %+v", b, e)
					}
				}
			}
		}
	})
}

// form is RFC 3339's, of which time.Parse takes more: hours of one digit, a
// comma in the fraction, zones of 24 hours.
var form = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzRFC3339: what has the form and is a time to time.Parse, we take; what we
// take beyond is lower case and leap seconds.
func FuzzRFC3339(f *testing.F) {
	for _, s := range []string{"2023-07-13T07:20:50.52Z", "2024-02-29T23:59:60Z", "2023-02-29T00:00:00Z", "2000-01-01t00:00:00z",
		"1900-02-29T00:00:00+00:00", "2023-07-13T07:20:50-23:59", "2023-07-13T24:00:00Z", "2023-07-13T07:20:50.Z", "2023-07-13T07:20:50", "2023-07-13T07:20:50,5Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 60 {
			return
		}
		norm := strings.ToUpper(s)
		if len(norm) == len(s) && len(s) > 19 && s[17:19] == "60" {
			norm = norm[:17] + "59" + norm[19:]
		}
		_, err := time.Parse(time.RFC3339, norm)
		if want := err == nil && form.MatchString(norm); isRFC3339(s) != want {
			t.Fatalf("%q: got %t, want %t (%v)", s, !want, want, err)
		}
	})
}
