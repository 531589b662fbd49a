package middleware

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/weirlimit/weir"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// limitEcho is a middleware for Echo. It has errors of handlers answered before it looks at
// the status.
func limitEcho(m *httplimit.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			w := c.Response()
			visit := m.Enter(w, c.Request(), nil, nil, 0)
			if visit == nil {
				return nil // answered
			}
			status := weir.NoAnswer // unless the handler returns
			defer func() { visit.Leave(status, w.Header(), w.Size) }()
			visit.Header(w.Header())
			if err := next(c); err != nil {
				c.Error(err)
			}
			status = w.Status
			return nil
		}
	}
}

// With Echo a handler's error is its answer, and failed logins are counted by it.
func Example_echo() {
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	logins := permin("logins", 2)
	logins.Adjustment = &weir.Adjustment{}
	logins.Adjustment.CountOn.Add(http.StatusUnauthorized, http.StatusUnauthorized)

	e := echo.New()
	e.GET("/login/:password", func(c echo.Context) error {
		if c.Param("password") != "right" {
			return echo.ErrUnauthorized
		}
		return c.String(http.StatusOK, "welcome")
	}, limitEcho(behind(store, logins)))

	ask(e, 2, "/login/right")
	ask(e, 3, "/login/wrong")
	// Output:
	// 200 ["logins";q=2;w=60] 1
	// 200 ["logins";q=2;w=60] 1
	// 401 ["logins";q=2;w=60] 1
	// 401 ["logins";q=2;w=60] 0
	// 429 ["logins";q=2;w=60] 0
}
