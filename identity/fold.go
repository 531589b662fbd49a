package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// foldName returns the name that a value is to those who do not tell spellings of a name
// apart: compatibility characters, case, what cannot be seen, and white space at
// its ends do not count. A value that is nothing else stays as it is.
//
// Source: the Unicode Standard §3.13, D146 (NFKC_Casefold).
func (s *scratch) foldName(v string) string {
	if printableBytes.hasAll(v) {
		trimmed := strings.Trim(v, " ")
		switch {
		case trimmed == "":
			return v
		case uncasedBytes.hasAll(trimmed):
			return trimmed
		}
		return s.keepAppended(appendLower(s.buf, trimmed))
	}
	if !utf8.ValidString(v) {
		return v
	}
	folded := v
	for range maxFolds {
		before := folded
		folded = cases.Fold().String(norm.NFKC.String(strings.Map(visible, folded)))
		folded = strings.TrimFunc(norm.NFKC.String(strings.Map(visible, folded)), unicode.IsSpace)
		if folded == before {
			break
		}
	}
	if folded == "" {
		return v
	}
	return folded
}

// maxFolds bounds how often a value is folded: what normalisation makes of a folded
// value can be folded again. No character is known that takes more than twice.
const maxFolds = 4

// visible returns r, -1 for one that is ignored where names are compared: format
// characters, such as joiners and soft hyphens, variation selectors and fillers.
func visible(r rune) rune {
	if r >= 0x80 && unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
		return -1
	}
	return r
}

var (
	printableBytes = newByteSet(func(c byte) bool { return c >= ' ' && c <= '~' })
	// uncasedBytes are all but the capital letters.
	uncasedBytes = newByteSet(func(c byte) bool { return lowerByte(c) == c })
)

// spellKey returns v as a key, folded if that is asked for.
func (s *scratch) spellKey(v string, fold bool) string {
	if fold && v != "" {
		v = s.foldName(v)
	}
	return s.fitToKey(v)
}
