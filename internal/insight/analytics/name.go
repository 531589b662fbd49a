package analytics

// name is a limit whatever its numbers are: they change, and it is the same.
type name struct{ domain, rule, limit string }

func nameOf(l Limit) name { return name{l.Domain, l.Rule, l.Limit} }

func (n name) String() string { return n.domain + "/" + n.rule + "/" + n.limit }
