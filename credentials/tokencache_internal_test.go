package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// TestTokenCacheIsBounded is group 3 of the threats: 200,000 tokens take no
// more room than the cache has, and those that are asked for stay.
func TestTokenCacheIsBounded(t *testing.T) {
	const size = 1600
	cache := newTokenCache(size)
	kept := &verified{}
	id := func(i int) (d [sha256.Size]byte) {
		binary.LittleEndian.PutUint64(d[:], uint64(i)*0x9e3779b97f4a7c15)
		return d
	}
	for i := range 200_000 {
		cache.storeToken(id(i), &verified{})
		if i%20 == 0 {
			if i == 0 {
				cache.storeToken(id(-1), kept)
			} else if cache.findToken(id(-1)) != kept {
				t.Fatalf("forgotten after %d others", i)
			}
		}
	}
	if n := remembered(cache); n > size {
		t.Errorf("%d tokens are remembered", n)
	}
	if cache.findToken(id(199_999)) == nil || cache.findToken(id(1)) != nil {
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
	tokens, err := NewTokens(JWTOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	was := tokens.keys.set.Load()
	if !tokens.keys.refresh(t.Context()) || was == nil || tokens.keys.set.Load() != was {
		t.Error("the same keys are another set")
	}
	text = append(text, '\n')
	if !tokens.keys.refresh(t.Context()) || tokens.keys.set.Load() == was {
		t.Error("other keys are the same set")
	}
}

// remembered returns how many tokens a cache has.
func remembered(t *tokenCache) (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.young) + len(s.old)
		s.mu.Unlock()
	}
	return n
}
