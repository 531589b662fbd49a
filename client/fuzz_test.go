package client

import (
	"encoding/json"
	"math/big"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// FuzzAnswer reads answers of a service that may be none.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"allowed":true,"soft":false,"borrowed":false,"delay":0.000001,"limit":{"name":"a","count":3,"burst":3,"period":60,"algorithm":"fixed_window"},"remaining":2,"retry_after":0,"reset_after":59.5,"guarantee":{"exact":true,"over_admit":0,"envelope":0,"source":"store","degraded":false},"limits":[{"limit":null,"role":"enforce","cost":1,"allowed":true,"charged":true,"remaining":2,"retry_after":null,"reset_after":1}]}`))
	f.Add([]byte(`{"allowed":false,"retry_after":null,"remaining":null}`))
	f.Add([]byte(`{"allowed":false,"retry_after":9223372036854775807}`))
	f.Add([]byte(`{"allowed":false,"retry_after":1e3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d decision
		if json.Unmarshal(b, &d) != nil {
			return
		}
		told, err := d.decode()
		if err != nil {
			return
		}
		for _, wait := range []time.Duration{told.RetryAfter, told.ResetAfter} {
			if wait < 0 && wait != weir.Never {
				t.Errorf("%s: wait %v", b, wait)
			}
		}
		if told.Delay < 0 {
			t.Errorf("%s: delay %v", b, told.Delay)
		}
		_ = told.steady()
	})
}

// FuzzSeconds compares with exact arithmetic.
func FuzzSeconds(f *testing.F) {
	for _, s := range []string{"0", "1", "59.999999", "0.000001", "9223372035", "9223372036.9", "99999999999999999999", "1.0000000019", "-1", "1e3", "", ".", "1.", "1.x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got seconds
		err := got.UnmarshalJSON([]byte(s))
		want, ok := new(big.Rat).SetString(s)
		if err != nil || !ok {
			if err == nil && s != "" && s[len(s)-1] != '.' {
				t.Errorf("%q reads as %v", s, got)
			}
			return
		}
		want.Mul(want, big.NewRat(int64(time.Second), 1))
		most := new(big.Rat).SetInt64(1 << 62)
		if want.Cmp(most) > 0 {
			if got < 1<<62 {
				t.Errorf("%q reads as %v", s, got)
			}
			return
		}
		diff := want.Sub(want, new(big.Rat).SetInt64(int64(got)))
		if diff.Sign() < 0 || diff.Cmp(big.NewRat(1, 1)) >= 0 {
			t.Errorf("%q reads as %v", s, got)
		}
	})
}
