package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// liar is a store that answers every op the same, whatever its error.
type liar struct {
	weir.Store
	answer weir.Decision
	err    error
}

func (s *liar) Take(_ context.Context, ops []weir.Op) error {
	for i := range ops {
		ops[i].Decision, ops[i].Charged = s.answer, true
	}
	return s.err
}

// TestFamilyZeroRefuses: no request passes the middleware without a decision, whatever
// the store says beside its error.
func TestFamilyZeroRefuses(t *testing.T) {
	limit := weir.PerMinute(10, algorithm.TokenBucket)
	if err := limit.Compile(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, s := range map[string]*liar{
		"fails and allows":             {answer: weir.Decision{Limit: limit, Remaining: 9}, err: broken},
		"fails and says unlimited":     {answer: weir.AllowUnlimited(), err: broken},
		"fails":                        {err: broken},
		"is closed":                    {err: weir.ErrClosed},
		"answers nothing and no error": {},
	} {
		s.Store = memory.New(memory.Options{})
		lim, err := weir.New(s, weir.Limits{limit}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		passed := false
		rec := httptest.NewRecorder()
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })).
			ServeHTTP(rec, httptest.NewRequest("GET", "/", nil))
		if passed || rec.Code != http.StatusServiceUnavailable {
			t.Errorf("the store %s: %d, passed %v", name, rec.Code, passed)
		}
		s.Store.Close()
	}
}
