package chromium

import (
	"encoding/json"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keys are those that tests press.
var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Space": " ", "Escape": kb.Escape, "ArrowUp": kb.ArrowUp, "ArrowDown": kb.ArrowDown,
	"PageUp": kb.PageUp, "PageDown": kb.PageDown, "Home": kb.Home, "End": kb.End,
}

func (b *tab) key(name string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys[name]))
}

func navigate(url string) chromedp.Action[chromedp.Void] { return chromedp.Navigate(url) }

// quote writes text as a script does.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // text can always be written
	}
	return string(b)
}

// drag presses the mouse at one place, moves it in steps to another, and lets go.
func (b *tab) drag(x, y, toX, toY float64) {
	b.t.Helper()
	steps := []chromedp.Action[chromedp.Void]{
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1)),
	}
	for i := range 4 {
		part := float64(i+1) / 4
		steps = append(steps, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x+(toX-x)*part, y+(toY-y)*part, chromedp.ButtonLeft))
	}
	b.run(append(steps, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, toX, toY, chromedp.ButtonLeft, chromedp.ClickCount(1)))...)
}
