package rules

// check builds sources and looks for what is allowed and yet likely wrong.
func check(sources []source, opt Options) (*Set, Errors) {
	set, errs := build(sources, opt)
	faults, warnings := errs.Split()
	if len(faults) > 0 {
		return nil, errs
	}
	set.warnings = warnings
	return set, errs
}
