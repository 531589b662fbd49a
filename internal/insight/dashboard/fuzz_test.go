package dashboard

import (
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strings"
	"testing"
	"time"
)

// FuzzNext: whatever a link to the login says, it leads to the dashboard of this
// origin, and not in a circle.
func FuzzNext(f *testing.F) {
	for _, s := range []string{"/ui/", "/ui/rules?from=1h", "//evil.test/ui/", "/ui/\\evil", "/ui/%2e%2e/v1", "http:/ui/", "/ui/login", "/ui/..%2f"} {
		f.Add(s)
	}
	base, err := url.Parse("https://weir.test/ui/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		to, err := base.Parse(localPath(next))
		if err != nil {
			t.Fatalf("%q leads to what is no address: %v", next, err)
		}
		if to.Host != "weir.test" || to.Scheme != "https" || !strings.HasPrefix(to.Path, home) || strings.HasPrefix(to.Path, "/ui/log") {
			t.Errorf("%q leads to %s", next, to)
		}
		if again := localPath(localPath(next)); again != localPath(next) {
			t.Errorf("%q leads to %q, and that to %q", next, localPath(next), again)
		}
	})
}

// FuzzCookie: no value is a session but those that were made.
func FuzzCookie(f *testing.F) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newSessions("an admin token of some length", time.Hour, func() time.Time { return now })
	// The same in every process that fuzzes.
	body := append(binary.BigEndian.AppendUint64(nil, uint64(now.Add(time.Hour).Unix())), make([]byte, idBytes)...)
	made := base64.RawURLEncoding.EncodeToString(append(body, s.signBytes("cookie", body)...))
	for _, v := range []string{"", made, made[:40], strings.Repeat("A", len(made)), made + "=", strings.ToLower(made)} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if v := s.readCookie(value); (v != nil) != (value == made) {
			t.Errorf("%q: %+v", value, v)
		}
	})
}
