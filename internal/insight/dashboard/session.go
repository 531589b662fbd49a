package dashboard

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

// session is a login: until when it holds, and a number that nobody else has.
type session struct {
	id      [16]byte
	expires time.Time
}

// sessions makes and reads the values of session cookies. A value is signed by a
// key that is made of the token, so that every node with the same token knows it,
// a restart ends no session, and another token ends all of them.
type sessions struct {
	last time.Duration
	now  func() time.Time
	// key is made at the first login: it costs some milliseconds on purpose, as
	// who has a cookie could else try tokens on it.
	key func() []byte

	mu sync.Mutex
	// ended are those that were logged out on this node before they expired.
	ended map[[16]byte]time.Time
}

// rounds of PBKDF2 between the token and the key.
const rounds = 100_000

func newSessions(token string, last time.Duration, now func() time.Time) *sessions {
	return &sessions{last: last, now: now, ended: map[[16]byte]time.Time{}, key: sync.OnceValue(func() []byte {
		key, err := pbkdf2.Key(sha256.New, token, []byte("weir dashboard session v1"), rounds, sha256.Size)
		if err != nil {
			panic(err) // the numbers are fixed, and right
		}
		return key
	})}
}

// Sizes of a cookie's value, in bytes before base64.
const (
	stampBytes  = 8
	idBytes     = 16
	cookieBytes = stampBytes + idBytes + sha256.Size
)

// startSession starts a session and returns its cookie's value.
func (s *sessions) startSession() (string, *session) {
	v := &session{expires: s.now().Add(s.last).Truncate(time.Second)}
	rand.Read(v.id[:]) // never fails
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cookieBytes), uint64(v.expires.Unix()))
	b = append(b, v.id[:]...)
	return base64.RawURLEncoding.EncodeToString(append(b, s.signBytes("cookie", b)...)), v
}

// signBytes returns the signature of b for one use.
func (s *sessions) signBytes(use string, b []byte) []byte {
	m := hmac.New(sha256.New, s.key())
	m.Write([]byte(use + "\x00"))
	m.Write(b)
	return m.Sum(nil)
}

// readCookie returns the session of a cookie's value, nil if it is none, has expired or
// was ended.
func (s *sessions) readCookie(value string) *session {
	if len(value) != base64.RawURLEncoding.EncodedLen(cookieBytes) {
		return nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil {
		return nil
	}
	body, sum := b[:stampBytes+idBytes], b[stampBytes+idBytes:]
	if !hmac.Equal(sum, s.signBytes("cookie", body)) {
		return nil
	}
	v := &session{expires: time.Unix(int64(binary.BigEndian.Uint64(body)), 0)}
	copy(v.id[:], body[stampBytes:])
	if !s.now().Before(v.expires) || s.hasEnded(v.id) {
		return nil
	}
	return v
}

// csrfToken returns what changing requests of a session say in the header Weir-CSRF.
func (s *sessions) csrfToken(v *session) string {
	return base64.RawURLEncoding.EncodeToString(s.signBytes("csrf", v.id[:]))
}

func (s *sessions) hasEnded(id [16]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, over := s.ended[id]
	return over
}

// endSession ends a session on this node. Sessions that have expired since need not be
// remembered.
func (s *sessions) endSession(v *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, expires := range s.ended {
		if !now.Before(expires) {
			delete(s.ended, id)
		}
	}
	s.ended[v.id] = v.expires
}
