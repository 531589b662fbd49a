package analytics

import "context"

// old are rows that are older than what is kept. The statements delete at most as
// many as their last argument.
type old struct {
	statement string
	args      []any
}

// deleteAll deletes rows step by step.
func (s *sweeper) deleteAll(ctx context.Context, o old) error {
	for {
		gone, err := s.deleteSome(ctx, o.statement, append(append([]any{}, o.args...), int64(step)))
		if err != nil || gone < step {
			return err
		}
	}
}

// deleteSome is deleteRows of rows that are told of as pruned.
func (s *sweeper) deleteSome(ctx context.Context, statement string, args []any) (gone int64, err error) {
	gone, err = s.deleteRows(ctx, statement, args)
	s.state.forgotten.Add(gone)
	return gone, err
}

// deleteRows runs a statement that deletes rows in a transaction of its own, and returns
// how many those were.
func (s *sweeper) deleteRows(ctx context.Context, statement string, args []any) (gone int64, err error) {
	err = updateRows(ctx, s.db, func(in *statements) {
		gone = 0
		in.query(func(Row) { gone++ }, statement, args...)
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}
