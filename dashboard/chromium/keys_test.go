package chromium

import (
	"encoding/json"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keys are those that tests press.
var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "Escape": kb.Escape, "ArrowUp": kb.ArrowUp, "ArrowDown": kb.ArrowDown,
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
