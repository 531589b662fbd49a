module github.com/weirlimit/weir/client/browser/chromium

go 1.26.0

require github.com/chromedp/chromedp v0.22.0

require github.com/weirlimit/weir v0.0.0

require (
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/weirlimit/weir => ../../..
