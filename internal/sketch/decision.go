package sketch

// Never is the RetryAfter of a cost that exceeds the limit and can never pass.
const Never = -1

// A Decision is what a [Window] answers for one key.
type Decision struct {
	// Allowed says whether the cost was spent or, for a peek, would be.
	Allowed bool
	// Remaining is the largest cost that would pass now, after this decision.
	Remaining int64
	// RetryAfter is the time in microseconds until the refused cost passes if
	// nobody else spends: 0 if allowed, Never if the cost exceeds the limit.
	// Before it has passed, this cost and any larger one are certain to be
	// refused unless the limit is raised, so a refusal may be cached that long.
	// Other keys that spend meanwhile can only lengthen the wait.
	RetryAfter int64
	// ResetAfter is the time in microseconds until the key equals one never
	// seen, if nobody spends.
	ResetAfter int64
}
