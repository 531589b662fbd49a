package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/hangup"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// Whoever hangs up is counted, however and whenever: also by a handler that says 500 then,
// or panics, as httputil.ReverseProxy does.
func TestFamilyHangingUpIsCounted(t *testing.T) {
	for name, h := range map[string]*hangup.Handler{"plain": {}, "obedient": {Obedient: true}} {
		t.Run(name, func(t *testing.T) { hangingUp(t, h) })
	}
}

func hangingUp(t *testing.T, h *hangup.Handler) {
	var limits weir.Limits
	for i, s := range []weir.Adjustment{{CountOn: codes(401)}, {RefundOn: codes(500, weir.NoAnswer)}, {Per: 500, RefundOn: codes(500, weir.NoAnswer)}} {
		limits = append(limits, settled(hangup.Count, s)...)
		limits[i].Name = hangup.Names[i]
	}
	s := &site{t: t, store: clocked.New(t)}
	limited := s.limited(limits, httplimit.Options{}, h)
	hangup.Counted(t, s.lim, "", limited, h, func(served http.Handler) string {
		s.Server = httptest.NewUnstartedServer(served)
		s.Config.ErrorLog, s.Config.Protocols = quiet, new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	})
}
