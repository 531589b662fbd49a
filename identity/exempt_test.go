package identity_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/rules"
)

// TestFamilyNothingIsRemoved: a request that servers may read in two ways is charged at
// least what it would be in each of them, whatever allows, replaces, exempts or gives a tier
// in the other; and with a token that is late at least what a stranger is.
func TestFamilyNothingIsRemoved(t *testing.T) {
	aliceKey, bobKey := "a-key-of-user-alice-000", "a-key-of-user-bob-00000"
	r := identitytest.New(t, identity.Options{
		Token: identitytest.Tokens(t, credentials.JWTOptions{Secret: tokenSecret, Now: identitytest.Fixed}),
		User:  []string{"jwt:sub", "api_key"}, Tier: []string{"jwt:tier", "keys"},
		APIKey: identity.APIKeyOptions{From: []string{"header:X-Api-Key"}, Secret: identity.Secret("0123456789abcdef")},
		Keys:   identitytest.Keys(t, "keys.csv", "sha256,user,tier\n"+identitytest.Digest(aliceKey)+",alice,gold\n"+identitytest.Digest(bobKey)+",bob,\n"),
	})
	token := func(user, tier string, end time.Duration) string {
		return "Bearer " + tokenWith(t, fmt.Sprintf(`"sub":%q,"tier":%q,"exp":%s`, user, tier, strconv.FormatInt(identitytest.Now+int64(end/time.Second), 10)))
	}
	rng := rand.New(rand.NewPCG(seeds.Of(t), 7))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	loaded := 0
	for range 600 {
		text := "domain: d\n"
		if rng.IntN(2) == 0 {
			text += pick("allow: {user: [alice]}\n", "allow: {user: [mallory, bob]}\n", "allow: {client: ['user:mallory']}\n", "allow: {'jwt:sub': [mallory]}\n", "allow: {tier: [gold]}\n", "allow: {'query:account': [vip, b]}\n", "allow: {'cookie:sid': [vip]}\n", "allow: {'header:X-Plan': [vip]}\n")
		}
		text += "descriptors:\n"
		limit := func(key, value string) {
			text += "- {key: " + key
			if value != "" {
				text += ", value: '" + value + "'"
			}
			text += ", " + pick("limit: {limit: 5/minute, name: "+key[:4]+"}", "limit: {limit: 7/minute, replaces: [remo]}", "limit: {unlimited: true, replaces: [remo, path]}", "limit: unlimited", "limit: 9/minute, tiers: {by: tier, limits: {gold: 100/minute, free: unlimited}}", "limit: 9/minute, overrides: {alice: 1000/minute, b: unlimited}") + "}\n"
		}
		limit("remote_address", "")
		for _, k := range []string{"user", "client", "tier", "'jwt:sub'", "'query:account'", "'cookie:sid'", "path"} {
			if rng.IntN(2) == 0 {
				limit(k, "")
			}
			if rng.IntN(3) == 0 {
				limit(k, pick("alice", "mallory", "bob", "gold", "vip", "b", "user:mallory", "user:alice"))
			}
		}
		set, err := rules.Parse("r.yaml", []byte(text), rules.Options{})
		if err != nil {
			continue // two of the rules are one
		}
		loaded++
		var ds []identity.Descriptor
		plan := r.RulePlan(set, 0)
		if rng.IntN(2) == 0 {
			ds = nil
			for _, one := range []string{"remote_address", "user", "client", "tier", "user,tier", "jwt:sub", "query:account", "cookie:sid", "path", "remote_address,tier"} {
				d := of(strings.Split(one, ",")...)
				if rng.IntN(2) == 0 {
					d.Unless = pick("", "user", "tier", "jwt:sub", "api_key")
				}
				ds = append(ds, d)
			}
			if plan, err = r.Plan(ds); err != nil {
				t.Fatal(err)
			}
		}
		charged := func(query string, header ...string) (all []string) {
			f := fields(header...)
			f.Peer, f.Query = netip.MustParseAddr("192.0.2.1"), query
			c := r.Acquire()
			defer c.Release()
			c.Set(f)
			req := weir.Request{Domain: "d"}
			if err := plan.Fill(&req, c); err != nil {
				t.Fatal(err)
			}
			for _, o := range set.Match(nil, &req) {
				all = append(all, fmt.Sprint(o.Limit.ID(), " ", strconv.Quote(o.Key)))
			}
			return all
		}
		late, valid := token("mallory", "gold", -time.Minute), token("mallory", pick("gold", ""), time.Minute)
		key := pick(aliceKey, bobKey)
		v, w := pick("vip", "a", "b"), pick("vip", "a", "b")
		for _, c := range []struct {
			name string
			got  []string
			want [][]string
		}{
			{"a late token", charged("", "Authorization", late), [][]string{charged("")}},
			{"a late token and a key", charged("", "Authorization", late, "X-Api-Key", key), [][]string{charged("", "X-Api-Key", key)}},
			{"a token and a key", charged("", "Authorization", valid, "X-Api-Key", key), [][]string{charged("", "X-Api-Key", key), charged("", "Authorization", valid)}},
			{"two values", charged("account=" + v + "&account=" + w), [][]string{charged("account=" + v), charged("account=" + w)}},
			{"two cookies", charged("", "Cookie", "sid="+v+"; sid="+w), [][]string{charged("", "Cookie", "sid="+v), charged("", "Cookie", "sid="+w)}},
		} {
			for i, want := range c.want {
				for _, op := range want {
					if !slices.Contains(c.got, op) {
						t.Fatalf("%s: charged %q, not %q of reading %d, by\n%s%v", c.name, c.got, op, i+1, text, ds)
					}
				}
			}
		}
	}
	if loaded < 200 {
		t.Errorf("only %d files of rules load", loaded)
	}
}
