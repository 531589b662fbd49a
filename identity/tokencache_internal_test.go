package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// TestTokenCacheIsBounded is group 3 of the threats: 200,000 tokens take no
// more room than the cache has, and those that are asked for stay.
func TestTokenCacheIsBounded(t *testing.T) {
	const size = 1600
	cache := newTokenCache(size)
	kept := &claims{}
	id := func(i int) (d digest) {
		binary.LittleEndian.PutUint64(d[:], uint64(i)*0x9e3779b97f4a7c15)
		return d
	}
	for i := range 200_000 {
		cache.put(id(i), &claims{})
		if i%20 == 0 {
			if i == 0 {
				cache.put(id(-1), kept)
			} else if cache.get(id(-1)) != kept {
				t.Fatalf("forgotten after %d others", i)
			}
		}
	}
	if n := cache.len(); n > size {
		t.Errorf("%d tokens are remembered", n)
	}
	if cache.get(id(199_999)) == nil || cache.get(id(1)) != nil {
		t.Error("the wrong tokens are remembered")
	}
}

// TestSameKeysSameSet: a fetch that brings nothing new does not make verified
// tokens be verified again.
func TestSameKeysSameSet(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public()}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(text) }))
	defer s.Close()
	tokens, err := newTokens(JWTOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.close()
	was := tokens.keys.set.Load()
	if !tokens.keys.refresh(t.Context()) || was == nil || tokens.keys.set.Load() != was {
		t.Error("the same keys are another set")
	}
	text = append(text, '\n')
	if !tokens.keys.refresh(t.Context()) || tokens.keys.set.Load() == was {
		t.Error("other keys are the same set")
	}
}

// TestCallersInParallel: a resolver is shared, its callers are not.
func TestCallersInParallel(t *testing.T) {
	r, err := New(Options{
		APIKey: APIKeyOptions{From: []string{"bearer"}, Secret: Secret("0123456789abcdef")}, JWT: JWTOptions{Secret: make(Secret, 32)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range 8 {
		c := r.Acquire()
		c.Set(Facts{Header: map[string][]string{"Authorization": {fmt.Sprintf("Bearer k%d", i)}}})
		want[fmt.Sprint(i)] = string([]byte(c.APIKey()))
		c.Release()
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 300 {
				c := r.Acquire()
				c.Set(Facts{Path: "//a/../b", Host: "H", Header: map[string][]string{"Authorization": {fmt.Sprintf("Bearer k%d", i)}}})
				if p, err := c.Path(); p != "/b" || err != nil || c.Host() != "h" || c.APIKey() != want[fmt.Sprint(i)] || c.r.tokens.claim(c, "sub") != "" {
					t.Error(p, err, c.Host(), c.APIKey())
				}
				c.Release()
			}
		})
	}
	wg.Wait()
}
