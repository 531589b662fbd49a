package retention

import (
	"context"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// old are rows that are older than what is kept. The statements delete at most as
// many as their last argument.
type old struct {
	statement string
	args      []any
}

// deleteAll deletes rows step by step.
func (s *Sweeper) deleteAll(ctx context.Context, o old) error {
	for {
		gone, err := s.deleteSome(ctx, o.statement, append(append([]any{}, o.args...), int64(step)))
		if err != nil || gone < step {
			return err
		}
	}
}

// deleteSome is deleteRows of rows that are told of as pruned.
func (s *Sweeper) deleteSome(ctx context.Context, statement string, args []any) (gone int64, err error) {
	gone, err = s.deleteRows(ctx, statement, args)
	s.pruned.Add(gone)
	return gone, err
}

// deleteRows runs a statement that deletes rows in a transaction of its own, and returns
// how many those were.
func (s *Sweeper) deleteRows(ctx context.Context, statement string, args []any) (gone int64, err error) {
	err = rows.UpdateRows(ctx, s.db, func(in *rows.Statements) {
		gone = 0
		in.ReadRows(func(rows.Row) { gone++ }, statement, args...)
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}
