package bench

import (
	"errors"
	"testing"

	"github.com/weirlimit/weir/lab/bench/remote"
)

// BenchmarkRedis measures one decision of every limiter on a real redis-server.
func BenchmarkRedis(b *testing.B) {
	server, err := remote.Start(b.Context())
	if errors.Is(err, remote.ErrNoServer) {
		b.Skip(err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	}()
	for i, subject := range remote.Subjects {
		b.Run(subject.Name, func(b *testing.B) {
			s, err := remote.Open(subject, server.Addr, i, 10_000)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			b.ResetTimer()
			r, err := s.Round(int64(b.N))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(r.Rate, "decisions/s")
			b.ReportMetric(r.Client, "client-ns/op")
			b.ReportMetric(r.Server, "redis-ns/op")
			if r.Wrong > r.Ops/20 {
				b.Errorf("%d of %d decisions were not as they must be", r.Wrong, r.Ops)
			}
		})
	}
}
