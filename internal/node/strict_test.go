package node_test

import (
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// TestStrictIsASetting: where api.strict is set, what the rules do not have is an error at
// every door, unless the question says otherwise.
func TestStrictIsASetting(t *testing.T) {
	c := local("3/hour by user")
	c.API.Strict = true
	c.RESP.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0"
	ready := startRESP(t, c)
	const right, wrong = `{"descriptors":[{"entries":{"user":"a"}}]`, `{"descriptors":[{"entries":{"usr":"a"}}]`
	for _, tt := range []struct {
		path, body string
		want       int
	}{
		{"/v1/check", right + `}`, 200}, {"/v1/check", wrong + `}`, 400}, {"/v1/check", wrong + `,"strict":null}`, 400}, {"/v1/check", wrong + `,"strict":false}`, 200},
		{"/v1/peek", wrong + `}`, 400}, {"/v1/acquire", wrong + `}`, 400}, {"/v1/reserve", wrong + `}`, 400}, {"/v1/reserve", wrong + `,"strict":false}`, 200},
		{"/v1/check", `{"checks":[` + right + `},` + wrong + `}]}`, 400},
		{"/v1/check", `{"checks":[` + right + `},` + wrong + `,"strict":false}]}`, 200},
		{"/v1/check", `{"strict":false,"checks":[` + right + `},` + wrong + `}]}`, 200},
		{"/v1/check", `{"checks":[` + wrong + `},` + wrong + `,"strict":true}],"strict":false}`, 400},
		{"/v1/release", wrong + `,"lease":"x"}`, 200},
		{"/shouldAllowRequest", `{"clientId":"a"}`, 400},
	} {
		res, err := client.Post(ready.URLs["http"]+tt.path, "", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s %s: %s, want %d", tt.path, tt.body, res.Status, tt.want)
		}
	}

	conn, err := grpc.NewClient(strings.TrimPrefix(ready.URLs["grpc"], "grpc://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	svc := weirpb.NewLimitServiceClient(conn)
	for _, strict := range []*bool{nil, new(true), new(false)} {
		want := codes.InvalidArgument
		if strict != nil && !*strict {
			want = codes.OK
		}
		_, one := svc.Check(t.Context(), &weirpb.CheckRequest{Strict: strict, Descriptors: []*weirpb.Descriptor{{Entries: []*weirpb.Entry{{Key: "usr", Value: "a"}}}}})
		_, many := svc.CheckBatch(t.Context(), &weirpb.CheckBatchRequest{Table: &weirpb.CheckTable{Strict: strict, Keys: []string{"usr"}, Values: []string{"a", "b"}}})
		if status.Code(one) != want || status.Code(many) != want {
			t.Errorf("strict %v: %v, %v, want %s", strict, one, many, want)
		}
	}

	nc, err := net.Dial("tcp", hostOf(t, ready.URLs["resp"]))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := ask(t, nc, 2, "WEIR.CHECK api usr a", "WEIR.RELEASE api usr a LEASE x"); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "usr") || !strings.HasSuffix(got, "|:0") {
		t.Errorf("got %s", got)
	}
}
