package httplimit

import (
	"net/http"
	"testing"
)

func TestHostOf(t *testing.T) {
	f := func(url, want string) {
		t.Helper()
		r, err := http.NewRequest("GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostOf(r); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	f("https://API.Example/x", "api.example")
	f("https://api.example:443", "api.example")
	f("http://api.example:80", "api.example")
	f("https://api.example:80", "api.example:80")
	f("http://[::1]:8080/", "[::1]:8080")
	f("https://[::1]:443/", "[::1]")
}
