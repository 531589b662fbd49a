package xds_test

import (
	"math"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/xds"
)

func TestOptionsOutOfRange(t *testing.T) {
	f := func(opt xds.Options, want string) {
		t.Helper()
		if _, err := xds.New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opt, err, want)
		}
	}
	f(xds.Options{ConnectRetry: -1}, "ConnectRetry is -1ns: set it to zero or more")
	f(xds.Options{Backoff: xds.Backoff{Initial: -1}}, "Backoff.Initial")
	f(xds.Options{Backoff: xds.Backoff{Max: -1}}, "Backoff.Max")
	f(xds.Options{Backoff: xds.Backoff{Factor: -1}}, "Backoff.Factor")
	f(xds.Options{Backoff: xds.Backoff{Factor: math.NaN()}}, "Backoff.Factor")
	f(xds.Options{MaxMessage: -1}, "MaxMessage")
	f(xds.Options{KeepAlive: -1}, "KeepAlive")
	f(xds.Options{NodeID: "\xff"}, "must be UTF-8")
	f(xds.Options{NodeMetadata: map[string]string{"a": "\xff"}}, "must be UTF-8")
	for key, value := range map[string]string{
		"": "x", "a b": "x", ":path": "x", "grpc-timeout": "x", "a": "x\ny", "b": "é", "Ä": "x",
	} {
		f(xds.Options{Headers: map[string]string{key: value}}, "header")
	}
	if _, err := xds.New(xds.Options{Headers: map[string]string{"Trace-Bin": "\x00\xff", "X-a.b_c-1": "~ "}}); err != nil {
		t.Error(err)
	}
}
