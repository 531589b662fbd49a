package verdict

// Class is what a client is taken for.
type Class string

// Classes.
const (
	// Legitimate: the client does what clients are for, and the limit got into its
	// way.
	Legitimate Class = "likely_legitimate"
	// Shared: many people behind one address.
	Shared Class = "shared_address"
	// Runaway: a program that does not hear refusals: a loop, a retry without
	// back-off. Nobody means harm.
	Runaway Class = "runaway_client"
	// Abusive: the client looks for what it has no right to, or floods.
	Abusive Class = "abusive"
	// Undecided: the evidence does not bear a verdict.
	Undecided Class = "undecided"
)

// Certainty says how far a verdict can be relied on. It is a word, since the traffic by
// which it is measured is made up, and a figure would claim more than that bears.
type Certainty string

// Certainties, from the least.
const (
	None   Certainty = "none"   // of Undecided
	Low    Certainty = "low"    // a Confidence below MediumFrom
	Medium Certainty = "medium" // below HighFrom
	High   Certainty = "high"
)

// MediumFrom and HighFrom are the least Confidence of Medium and of High.
const MediumFrom, HighFrom = 0.7, 0.9

// certaintyOf returns the word for a confidence.
func certaintyOf(confidence float64) Certainty {
	switch {
	case confidence <= 0:
		return None
	case confidence < MediumFrom:
		return Low
	case confidence < HighFrom:
		return Medium
	}
	return High
}

// Verdict is what the evidence says of a client.
type Verdict struct {
	Class Class `json:"class"`
	// Certainty is how likely the verdict is right.
	Certainty Certainty `json:"confidence"`
	// Confidence is the share of clients, among those of the tuning traffic with a
	// verdict for reasons as good, for whom it was right: 0 to 1, 0 for Undecided.
	Confidence float64 `json:"-"`
	// Reasons say in plain words, with the figures, what the verdict rests on, the
	// weightiest first; Against what speaks against it; Missing what is not known
	// and would have helped.
	Reasons []string `json:"reasons"`
	Against []string `json:"against,omitempty"`
	Missing []string `json:"missing,omitempty"`
}
