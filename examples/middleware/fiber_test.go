package middleware

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// limitFiber is a middleware for Fiber, which is not built on net/http: it limits by the
// client's address.
func limitFiber(limiter *weir.Limiter) fiber.Handler {
	return func(c *fiber.Ctx) error {
		d, err := limiter.Take(c.Context(), c.IP(), 1)
		if err != nil { // no decision was made
			return fiber.ErrServiceUnavailable
		}
		if !d.Allowed() {
			seconds := int64((d.RetryAfter + time.Second - 1) / time.Second)
			c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(seconds, 10))
			return fiber.ErrTooManyRequests
		}
		return c.Next()
	}
}

// With Fiber a limiter is asked directly.
func Example_fiber() {
	store := memory.New(memory.Options{Now: noon})
	defer store.Close()
	limiter, err := weir.New(store, weir.Limits{permin("all", 2)}, weir.Options{})
	if err != nil {
		panic(err)
	}
	app := fiber.New()
	app.Use(limitFiber(limiter))
	app.Get("/", func(c *fiber.Ctx) error { return c.SendString("hello") })

	for range 3 {
		res, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil {
			panic(err)
		}
		fmt.Println(res.StatusCode, res.Header["Retry-After"])
	}
	// Output:
	// 200 []
	// 200 []
	// 429 [60]
}
