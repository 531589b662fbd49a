// Package advice says of a limit whether it does what it is for, in badges and in
// one or two plain sentences that quote the figures: relax, tighten, use a token
// bucket, key by user instead of address, never hit, never decisive, ready to be
// enforced.
//
// It says nothing where there is too little to tell. What each piece of advice
// needs before it may be said stands in needs.go, and in docs/explanation/verdicts.md.
//
// Everything here is pure: it keeps no state and asks nobody.
package advice
