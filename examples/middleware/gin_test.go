package middleware

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/weirlimit/weir"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// limited is a middleware for gin, whose own ResponseWriter knows the status
// and the length of the answer. Use it inside of gin.Recovery.
func limited(m *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		visit := m.Enter(c.Writer, c.Request, nil, nil, 0)
		if visit == nil {
			c.Abort()
			return
		}
		status := weir.NoAnswer // unless the handlers return
		defer func() { visit.Leave(status, c.Writer.Header(), int64(max(c.Writer.Size(), 0))) }()
		visit.Header(c.Writer.Header())
		c.Next()
		status = c.Writer.Status()
	}
}

// With gin a middleware enters and leaves by itself; here failed logins alone
// are counted.
func Example_gin() {
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	logins := permin("logins", 2)
	logins.Adjustment = &weir.Adjustment{}
	logins.Adjustment.CountOn.Add(http.StatusUnauthorized, http.StatusUnauthorized)

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	r.GET("/login/:password", limited(behind(store, logins)), func(c *gin.Context) {
		if c.Param("password") != "right" {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.String(http.StatusOK, "welcome")
	})

	ask(r, 2, "/login/right")
	ask(r, 3, "/login/wrong")
	// Output:
	// 200 ["logins";q=2;w=60] 1
	// 200 ["logins";q=2;w=60] 1
	// 401 ["logins";q=2;w=60] 1
	// 401 ["logins";q=2;w=60] 0
	// 429 ["logins";q=2;w=60] 0
}
