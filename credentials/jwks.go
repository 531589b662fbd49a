package credentials

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/regular"
)

// Bounds of a set of keys and of fetching one.
const (
	maxKeySet    = 256 << 10 // bytes
	maxKeys      = 100
	minRSA       = 2048 // bits
	fetchTimeout = 5 * time.Second
	// retryAfter is the least time between two fetches, once there is a set; before, they
	// are tried after firstRetry, then after twice as long each time, at most retryAfter.
	retryAfter = time.Minute
	firstRetry = time.Second
	// maxStale is for how long a set is believed that cannot be fetched again, or four
	// times Refresh if that is longer: keys that were withdrawn are in it still.
	maxStale = 24 * time.Hour
)

// keySet is the public keys at one time. Immutable.
type keySet struct {
	keys []jose.JSONWebKey
	// leftOut is how many keys of the text are of no use.
	leftOut int
	sum     [sha256.Size]byte
}

// warnLeftOut warns of keys that are of no use: tokens that they sign are not believed.
func (s *keySet) warnLeftOut(log *slog.Logger, from string) {
	if s.leftOut > 0 {
		log.Warn("JWT keys skipped: not for signatures, of an unknown kind, secret or private, or too short", "from", from, "skipped", s.leftOut, "used", len(s.keys))
	}
}

// findKeys returns the keys that a token with this key ID and algorithm may be
// signed with.
func (s *keySet) findKeys(id, algorithm string) []*jose.JSONWebKey {
	if s == nil {
		return nil
	}
	var found []*jose.JSONWebKey
	for i := range s.keys {
		k := &s.keys[i]
		if id != "" && k.KeyID != "" && k.KeyID != id || k.Algorithm != "" && k.Algorithm != algorithm {
			continue
		}
		if found = append(found, k); len(found) == maxTries {
			break
		}
	}
	return found
}

// parseKeySet reads PEM blocks, a JWK or a JWK set.
func parseKeySet(text []byte) (*keySet, error) {
	set := &keySet{sum: sha256.Sum256(text)}
	var err error
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		err = set.readJWK(text)
	} else {
		err = set.readPEM(text)
	}
	switch {
	case err != nil:
		return nil, err
	case len(set.keys) == 0:
		return nil, errors.New("no public key that signs tokens")
	case len(set.keys) > maxKeys:
		return nil, fmt.Errorf("%d keys are too many, the most is %d", len(set.keys), maxKeys)
	}
	return set, nil
}

// readJWK reads a set, or a single key. Keys of kinds that are not known are
// left out, as RFC 7517 §5 has it, and secrets and private keys too.
func (s *keySet) readJWK(text []byte) error {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
		Kty  string            `json:"kty"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("not a JWK set: %w", err)
	}
	if doc.Kty != "" {
		doc.Keys = append(doc.Keys, json.RawMessage(text))
	}
	for _, raw := range doc.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.IsPublic() && k.Valid() && (k.Use == "" || k.Use == "sig") && isStrong(k.Key) {
			s.keys = append(s.keys, k)
		} else {
			s.leftOut++
		}
	}
	return nil
}

func (s *keySet) readPEM(text []byte) error {
	for len(text) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		var key any
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			key, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			key, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				key = c.PublicKey
			}
		default:
			return fmt.Errorf("a PEM block %.40q, where only PUBLIC KEY and CERTIFICATE belong", block.Type)
		}
		if err != nil {
			return err
		}
		k := jose.JSONWebKey{Key: key}
		if !k.Valid() || !k.IsPublic() || !isStrong(key) {
			return fmt.Errorf("a public key of a kind that signs no tokens, or of less than %d bits", minRSA)
		}
		s.keys = append(s.keys, k)
	}
	return nil
}

// isStrong reports whether a key is long enough.
func isStrong(key any) bool {
	r, ok := key.(*rsa.PublicKey)
	return !ok || r.N.BitLen() >= minRSA
}

// keySource holds the set of keys, and keeps it fresh if it is at a URL.
type keySource struct {
	set  atomic.Pointer[keySet]
	opt  *JWTOptions
	name string        // of the URL, without the secrets that it may hold
	wish chan struct{} // a token names a key that is not in the set
	// lastWish, in seconds since the Unix epoch, keeps strangers from filling the
	// channel.
	lastWish atomic.Int64
	outage   *faults.Outage // of what is at the URL
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// loadFile reads the keys of a file.
func (s *keySource) loadFile(path string) error {
	text, err := regular.Read(path, maxKeySet)
	if err != nil {
		return fmt.Errorf("key_file: %w", err)
	}
	set, err := parseKeySet(text)
	if err != nil {
		return fmt.Errorf("key_file: %s: %w", path, err)
	}
	s.set.Store(set)
	return nil
}

// followURL fetches the keys at opt.URL now and then. That the first fetch fails
// is no error: no token is believed until one succeeds.
func (s *keySource) followURL(opt *JWTOptions) error {
	u, err := url.Parse(opt.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())) {
		return fmt.Errorf("url must be https, or http on a loopback address: otherwise the keys can be replaced in transit")
	}
	client := &http.Client{Timeout: fetchTimeout}
	if opt.Client != nil {
		*client = *opt.Client
		if client.Timeout == 0 || client.Timeout > fetchTimeout {
			client.Timeout = fetchTimeout
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	opt.Client = client
	s.name = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	s.outage = faults.NewOutage(opt.Log, "JWT keys fetch failed; the last fetched keys stay in use",
		"JWT keys fetch recovered", "url", s.name)
	s.opt, s.wish = opt, make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	ok := s.refresh(ctx)
	s.running.Go(func() { s.fetchUntilDone(ctx, ok) })
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fetchUntilDone fetches until ctx ends: every Refresh, a minute after a failure, and when
// a key is wanted, but never twice in a minute unless there is no set yet.
func (s *keySource) fetchUntilDone(ctx context.Context, ok bool) {
	last, good := time.Now(), time.Now()
	retry := backoff.Backoff{Min: firstRetry, Max: retryAfter}
	for {
		least := retryAfter
		if s.set.Load() == nil {
			least = retry.Next()
		}
		wait := s.opt.Refresh
		if !ok {
			wait = least
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-s.wish:
			if !backoff.Sleep(ctx, max(least-time.Since(last), 0)) {
				return
			}
		}
		ok = s.refresh(ctx)
		last = time.Now()
		switch {
		case ok:
			good = last
			retry.Reset()
		case s.set.Load() != nil && last.Sub(good) > max(maxStale, 4*s.opt.Refresh):
			s.set.Store(nil)
			s.opt.Log.Error("JWT keys expired; all tokens are rejected until the keys are fetched", "url", s.name, "age", last.Sub(good).Round(time.Second))
		}
	}
}

// requestFetch asks for a fetch, as a token names a key that is not there. It does not
// wait: until the key is there the token is not believed.
func (s *keySource) requestFetch(now time.Time) {
	if s.wish == nil {
		return
	}
	sec := now.Unix()
	if last := s.lastWish.Load(); sec == last || !s.lastWish.CompareAndSwap(last, sec) {
		return
	}
	select {
	case s.wish <- struct{}{}:
	default:
	}
}

// refresh fetches the set. The last good one stays if that fails.
func (s *keySource) refresh(ctx context.Context) bool {
	set, err := s.fetchKeys(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.outage.Failed(err)
		}
		return false
	}
	s.outage.Succeeded()
	// Tokens that were verified stay so while the set is the same.
	if was := s.set.Load(); was == nil || was.sum != set.sum {
		s.set.Store(set)
		set.warnLeftOut(s.opt.Log, s.name)
	}
	return true
}

func (s *keySource) fetchKeys(ctx context.Context) (*keySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.opt.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.opt.Client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return nil, failed.Err // without the URL
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("a set of more than %d bytes", maxKeySet)
	}
	return parseKeySet(text)
}

// close ends fetching and waits for it.
func (s *keySource) close() {
	if s.stop != nil {
		s.stop()
		s.running.Wait()
	}
}
