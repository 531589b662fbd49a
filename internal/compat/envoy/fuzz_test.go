package envoy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconfv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// archives calls do with every file of testdata/compat.
func archives(f *testing.F, do func(*txtar.Archive)) {
	names, err := filepath.Glob("testdata/compat/*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatal("no files", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		do(txtar.Parse(b))
	}
}

// FuzzRules: what is taken is dumped and asked for without harm; what is not has
// an error with the name of the file.
func FuzzRules(f *testing.F) {
	archives(f, func(a *txtar.Archive) {
		for _, file := range a.Files {
			f.Add(file.Data)
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Options{Modes: Modes{DynamicMetadata: true, Headers: Headers{Enabled: true}}})
		err := s.LoadFiles([]File{{Name: "config.fuzz.yaml", Content: b}}, false)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "config.fuzz.yaml: ") {
				t.Fatal(err)
			}
			return
		}
		if err := s.Dump(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		for name := range s.rules.Load().domains {
			decideAll(t, s, name)
		}
	})
}

// decideAll asks for every node of the first levels of a domain.
func decideAll(t *testing.T, s *Service, domain string) {
	for word := range s.rules.Load().domains[domain].root.nodes {
		req := &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []descriptorMessage{descriptor(t, "none"), descriptor(t, "none")}}
		key, value, _ := strings.Cut(word, "_")
		for i, e := range []*commonv3.RateLimitDescriptor_Entry{{Key: word}, {Key: key, Value: value}} {
			req.Descriptors[i].Entries = []*commonv3.RateLimitDescriptor_Entry{e}
		}
		check(t, s, req)
	}
}

// check sees that an answer is one.
func check(t *testing.T, s *Service, req *rlsv3.RateLimitRequest) {
	resp, err := s.ShouldRateLimit(context.Background(), req)
	if err != nil {
		return
	}
	if len(resp.Statuses) != len(req.Descriptors) || resp.OverallCode == rlsv3.RateLimitResponse_UNKNOWN {
		t.Fatalf("%v to %v", resp, req)
	}
	for _, st := range resp.Statuses {
		l, d := st.CurrentLimit, st.DurationUntilReset
		if (l == nil) != (d == nil) || l != nil && (st.LimitRemaining > l.RequestsPerUnit || d.Seconds < 1) ||
			st.Code == rlsv3.RateLimitResponse_UNKNOWN || st.Code == rlsv3.RateLimitResponse_OVER_LIMIT && st.LimitRemaining > 0 {
			t.Fatalf("%v to %v", resp, req)
		}
	}
	if _, err := proto.Marshal(resp); err != nil {
		t.Fatal(err)
	}
}

const fuzzed = `
domain: d
descriptors:
  - {key: k, rate_limit: {unit: hour, requests_per_unit: 3, name: k}, quota_mode: true, metadata: {m: {a: 1}}}
  - {key: w, value: a*b*c, share_threshold: true, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 3, replaces: [{name: k}]}}
  - {key: v, value_to_metric: true, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 0}, metadata: {m: {b: 1}}, descriptors: [{key: "*", rate_limit: {unlimited: true}}]}
`

// FuzzRequest decides raw protobuf.
func FuzzRequest(f *testing.F) {
	archives(f, func(a *txtar.Archive) {
		for line := range strings.Lines(string(a.Comment)) {
			req := &rlsv3.RateLimitRequest{}
			if text, ok := strings.CutPrefix(line, "json "); ok && protojson.Unmarshal([]byte(text), req) == nil {
				b, err := proto.Marshal(req)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(b)
			}
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		req := &rlsv3.RateLimitRequest{}
		if proto.Unmarshal(b, req) != nil {
			return
		}
		for _, o := range []Options{
			{Modes: Modes{DynamicMetadata: true, Headers: Headers{Enabled: true}}},
			{LocalCacheBytes: 1, StopIncrementWhenOver: true, Modes: Modes{Quota: true, Shadow: true}},
		} {
			s := New(o)
			if err := s.LoadFiles([]File{{Name: "config.d.yaml", Content: []byte(fuzzed)}}, false); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				check(t, s, req)
			}
		}
	})
}

// FuzzJSON answers any body with one of four codes.
func FuzzJSON(f *testing.F) {
	archives(f, func(a *txtar.Archive) {
		for line := range strings.Lines(string(a.Comment)) {
			if text, ok := strings.CutPrefix(line, "json "); ok {
				f.Add([]byte(strings.TrimSpace(text)))
			}
		}
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Options{})
		if err := s.LoadFiles([]File{{Name: "config.d.yaml", Content: []byte(fuzzed)}}, false); err != nil {
			t.Fatal(err)
		}
		code, body := (&here{web: s.JSON()}).json(t, string(b))
		switch code {
		case 200, 429:
			if err := protojson.Unmarshal([]byte(body), &rlsv3.RateLimitResponse{}); err != nil {
				t.Fatal(err)
			}
		case 400, 413:
		default:
			t.Fatalf("%d: %s", code, body)
		}
	})
}

// FuzzXDS loads raw resources.
func FuzzXDS(f *testing.F) {
	metadata, err := structpb.NewStruct(map[string]any{"a": []any{1, "x", nil}})
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range []*rlsconfv3.RateLimitConfig{
		resource("a", "d", &rlsconfv3.RateLimitDescriptor{Key: "k", RateLimit: policy(1, 2), QuotaMode: true, Metadata: metadata}),
		resource("", ""),
		resource("b", "d", &rlsconfv3.RateLimitDescriptor{Key: "k", Value: "*", Descriptors: []*rlsconfv3.RateLimitDescriptor{{Key: "l"}}}),
	} {
		b, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &rlsconfv3.RateLimitConfig{}
		if proto.Unmarshal(b, r) != nil {
			return
		}
		s := New(Options{Modes: Modes{DynamicMetadata: true}})
		if err := s.LoadXDS([]*rlsconfv3.RateLimitConfig{r}, false); err != nil {
			return
		}
		decideAll(t, s, r.Domain)
	})
}
