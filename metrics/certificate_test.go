package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/metrics"
)

// Listeners that share a file have one series, of what ends first.
func TestCertificates(t *testing.T) {
	text := scrape(t, metrics.New(metrics.Options{Certificates: func() []metrics.Certificate {
		return []metrics.Certificate{
			{File: "a.pem", Expires: time.Unix(2000, 0)}, {File: "b.pem", Expires: time.Unix(5000, 0)}, {File: "a.pem", Expires: time.Unix(1000, 0)},
		}
	}}))
	for _, want := range []string{`{file="a.pem"} 1000`, `{file="b.pem"} 5000`} {
		if !strings.Contains(text, "weir_certificate_expires_timestamp_seconds"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
