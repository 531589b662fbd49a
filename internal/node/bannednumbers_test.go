package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// bannedLimit and bannedSays are what answers of the API have numbers in.
type bannedLimit struct {
	Count, Burst int64
	Period       float64
	Algorithm    string
}

type bannedSays struct {
	Allowed, Banned bool
	Remaining       int64
	Limit           bannedLimit
	Guarantee       struct {
		Exact     bool
		AtMost    *int64 `json:"at_most"`
		OverAdmit int64  `json:"over_admit"`
		Envelope  int64
	}
	Limits []struct {
		Role      string
		Remaining int64
		Limit     bannedLimit
	}
}

// falseNumber returns what an answer to a banned client says that the ban does not keep;
// ruled: it is banned for a refusal, which is what that limit counts.
func (b *bannedSays) falseNumber(ruled bool) string {
	switch g := b.Guarantee; {
	case b.Allowed || !b.Banned:
		return "it is not told of a ban"
	case b.Remaining != 0:
		return fmt.Sprint(b.Remaining, " units remain")
	case g.OverAdmit != 0 || g.Envelope != 0:
		return fmt.Sprintf("%d units above an envelope of %d", g.OverAdmit, g.Envelope)
	case ruled && (g.AtMost != nil || g.Exact):
		return "a limit of refusals bounds what passes"
	case ruled && b.Limit != bannedLimit{1, 1, 7200, "lockout"}:
		return fmt.Sprintf("one refusal in two hours is %v", b.Limit)
	case !ruled && (g.AtMost == nil || *g.AtMost != 0):
		return "more than nothing passes"
	case !ruled && b.Limit != bannedLimit{}:
		return fmt.Sprintf("a ban has no numbers: %v", b.Limit)
	}
	for _, l := range b.Limits {
		if l.Remaining != 0 || l.Role == "deny" && l.Limit != (bannedLimit{}) {
			return fmt.Sprintf("a limit of the request: %+v", l)
		}
	}
	return ""
}

// TestFamilyBannedNumbersAreTrue: no answer of an API to a banned client has a number that
// the ban does not keep: nothing passes, and nothing is left.
func TestFamilyBannedNumbersAreTrue(t *testing.T) {
	_, ready := serveBanned(t)
	conn, err := grpc.NewClient(strings.TrimPrefix(ready.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	post := func(path, body string) []byte {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, ready.URLs["http"]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	said := func(door, kind string, text []byte) {
		t.Helper()
		var b bannedSays
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s, %s: %s: %v", door, kind, text, err)
		}
		if why := b.falseNumber(kind == "ruled"); why != "" {
			t.Errorf("%s, %s: %s: %s", door, kind, why, text)
		}
	}
	says := func(door, kind string, d *weirpb.Decision, l *weirpb.Limit, g *weirpb.Guarantee, banned bool) {
		t.Helper()
		b := bannedSays{Allowed: d.GetAllowed(), Banned: banned, Remaining: d.GetRemaining(), Limit: bannedLimit{l.GetCount(), l.GetBurst(), float64(l.GetPeriodUs()) / 1e6, l.GetAlgorithm()}}
		b.Guarantee.Exact, b.Guarantee.OverAdmit, b.Guarantee.Envelope = g.GetExact(), g.GetOverAdmit(), g.GetEnvelope()
		if most := g.GetAtMost(); most != math.MaxInt64 {
			b.Guarantee.AtMost = &most
		}
		if why := b.falseNumber(kind == "ruled"); why != "" {
			t.Errorf("%s, %s: %s: %v, %v, %v", door, kind, why, d, l, g)
		}
	}
	for _, kind := range []string{"key", "domain", "ruled", "denied", "denied by a rule"} {
		one := fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"header:X-Kind","value":%q}]}]}`, kind)
		for _, path := range []string{"/v1/check", "/v1/peek", "/v1/reserve", "/v1/acquire"} {
			said(path, kind, post(path, one))
		}
		var batch struct{ Results []json.RawMessage }
		if text := post("/v1/check", `{"checks":[`+one+`,`+one+`]}`); json.Unmarshal(text, &batch) != nil || len(batch.Results) != 2 {
			t.Fatalf("a batch: %s", text)
		}
		for _, text := range batch.Results {
			said("a batch", kind, text)
		}
		check := &weirpb.CheckRequest{Domain: "api", Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "header:X-Kind", Value: kind}}}}}
		res, err := weirpb.NewLimitServiceClient(conn).Check(t.Context(), check)
		if err != nil {
			t.Fatal(err)
		}
		says("weir.v1", kind, res.Decision, res.Decision.Limit, res.Decision.Guarantee, res.Decision.Banned)
		many, err := weirpb.NewLimitServiceClient(conn).CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Checks: []*weirpb.CheckRequest{check, check}})
		if err != nil || len(many.Limits) != 1 {
			t.Fatalf("a batch over gRPC: %v, %v", many, err)
		}
		d := &weirpb.Decision{Allowed: many.Allowed[0]}
		for _, n := range many.Remaining {
			d.Remaining = max(d.Remaining, n)
		}
		says("a batch of weir.v1", kind, d, many.Limits[0].Limit, many.Limits[0].Guarantee, many.Limits[0].Bans)
		if text := redisSays(t, ready, kind); !strings.Contains(text, "banned\r\n:1\r\n") || !strings.Contains(text, "remaining\r\n:0\r\n") ||
			kind != "ruled" && !strings.Contains(text, "at_most\r\n:0\r\n") || kind == "ruled" && !strings.Contains(text, "at_most\r\n$-1\r\n") {
			t.Errorf("WEIR.CHECK, %s: %q", kind, text)
		}
	}
}

// redisSays returns the reply to WEIR.CHECK.
func redisSays(t *testing.T, ready Ready, kind string) string {
	t.Helper()
	return redisAnswers(t, ready, "WEIR.CHECK", "api", "header:X-Kind", kind)
}

// redisArray returns a command as clients send it, without its last end of line.
func redisArray(words ...string) string {
	lines := []string{"*" + strconv.Itoa(len(words))}
	for _, w := range words {
		lines = append(lines, "$"+strconv.Itoa(len(w)), w)
	}
	return strings.Join(lines, "\r\n")
}

// redisAnswers returns all that is answered to a command and to QUIT.
func redisAnswers(t *testing.T, ready Ready, command ...string) string {
	t.Helper()
	u, err := url.Parse(ready.URLs["resp"])
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(nc, "%s\r\nQUIT\r\n", redisArray(command...))
	all, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}
