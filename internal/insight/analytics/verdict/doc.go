// Package verdict says what a limited client is: somebody the limit is not meant
// for, many people behind one address, a program gone astray, or an attacker. It
// says so in plain words with the figures, and undecided where they do not bear it.
//
// It consists of rules of thumb with stated thresholds, not of weights. See
// docs/explanation/verdicts.md for the thresholds, what they were tuned on, and how often
// verdicts were right on traffic that they were not tuned on.
//
// Everything here is pure: it keeps no state and asks nobody.
package verdict
