package analytics

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

func (s *Service) readSystem(ctx context.Context) (*report.System, error) {
	now := s.opt.Now()
	out := &report.System{At: now.UTC(), Database: s.db.Dialect().Kind, Schema: rows.SchemaVersion(), Sources: []report.SourceInfo{}, Service: s.state.readInfo(now)}
	var err error
	if out.Bytes, err = s.db.Used(ctx); err != nil {
		return nil, err
	}
	last := s.lastSystem.Load()
	recent := last != nil && now.Sub(last.At) >= 0 && now.Sub(last.At) < countEvery
	err = rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		out.ReadSources(in)
		if !recent {
			out.CountRows(in, &s.opt.Bounds)
		}
	})
	if recent {
		out.Tables = last.Tables
	} else if err == nil {
		s.lastSystem.Store(out)
	}
	return out, err
}

// countEvery is how often rows are counted at most: that takes long where there
// are many.
const countEvery = 30 * time.Second
