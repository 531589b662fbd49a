package main

// theorems says what each algorithm guarantees, in the words of its doc
// comment, for an operator who has no source at hand. One that is not listed is
// explained by its numbers alone.
var theorems = map[string]string{
	"token_bucket":       "any interval of length d admits at most burst + d*count/period units",
	"leaky_bucket":       "any interval of length d admits at most burst + d*count/period units",
	"leaky_queue":        "any interval of length d sees at most d*count/period departures, rounded up; no wait exceeds max_delay",
	"fixed_window":       "at most count units in any window, at most twice that in any interval no longer than a window",
	"sliding_log":        "at most count units in any interval of one period; refuses only what would exceed that",
	"sliding_window":     "at most count units in any interval of one period; a unit is free again at most a sixtieth of the period late, a fortieth for counts from 2 to 20",
	"sliding_counter":    "any interval of length d admits at most count*(1 + d/period) units, never more than count at once",
	"sliding_subwindows": "strict: at most count units in any interval of one period; weighted and lenient: at most twice that",
	"concurrency":        "at most count units are in use at any time, if every holder stops or renews within a period",
	"lockout":            "at most count failures in any interval of one period, whatever the rhythm",
	"approximate":        "at most count units of any key in any interval of one period; may refuse too early",
}
