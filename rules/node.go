package rules

import (
	"strconv"
	"strings"
)

// kind is what a node of a YAML document is.
type kind uint8

const (
	scalar kind = iota
	list
	mapping
	null
)

func (k kind) String() string {
	return [...]string{"a value", "a list", "a block of keys", "nothing"}[k]
}

// node is one value of a YAML document, with its place. Aliases are resolved,
// so that a node can hang in several places; nodes are never changed.
type node struct {
	kind      kind
	file      string
	line, col int
	// text is a scalar as it is written, without quotes.
	text string
	// quoted: the scalar is text whatever it looks like.
	quoted bool
	pairs  []pair
	items  []*node
	// size is the number of nodes from here down, aliases counted wherever
	// they stand.
	size int
}

// pair is one key of a mapping and its value.
type pair struct {
	key   *node
	value *node
	// name is the key as it is known: in lower case where the dialect folds.
	name string
	// merged: the pair comes from a merge key, so that one written out in the
	// same mapping takes its place.
	merged bool
}

// find returns the value of key, nil if there is none.
func (n *node) find(key string) *node {
	if p := n.pair(key); p != nil {
		return p.value
	}
	return nil
}

// where returns the value of key, or n itself if there is none: the place to
// point at when key is at fault.
func (n *node) where(key string) *node {
	if v := n.find(key); v != nil {
		return v
	}
	return n
}

func (n *node) pair(key string) *pair {
	if n == nil || n.kind != mapping {
		return nil
	}
	// The last one wins where a dialect lets keys be repeated.
	for i := len(n.pairs) - 1; i >= 0; i-- {
		if n.pairs[i].name == key {
			return &n.pairs[i]
		}
	}
	return nil
}

// resolved is the type that YAML 1.1, as envoyproxy/ratelimit reads it, gives
// to a scalar.
type resolved uint8

const (
	asString resolved = iota
	asBool
	asInt
	asFloat
	asNull
)

// resolve returns the type of a scalar by the rules of YAML 1.1, in which
// `yes` and `on` are booleans and `010` is eight.
func (n *node) resolve() resolved {
	switch {
	case n.kind == null:
		return asNull
	case n.quoted:
		return asString
	}
	if _, ok := bool11(n.text); ok {
		return asBool
	}
	if _, err := int11(n.text); err == nil {
		return asInt
	}
	if isFloat(n.text) {
		return asFloat
	}
	return asString
}

// bool11 reads the booleans of YAML 1.1.
func bool11(s string) (value, ok bool) {
	switch s {
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}

func isNull(s string) bool {
	return s == "" || s == "~" || s == "null" || s == "Null" || s == "NULL"
}

func isFloat(s string) bool {
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case ".inf", ".nan":
		return true
	}
	if s == "" || !strings.ContainsAny(s, "0123456789") {
		return false
	}
	digits := strings.Trim(s, "+-0123456789._eE")
	return digits == "" && (strings.Count(s, ".") == 1 || strings.ContainsAny(s, "eE")) &&
		!strings.ContainsAny(s[:1], "eE_") && strings.Count(strings.ToLower(s), "e") <= 1
}

// floatOf reads a float that isFloat knows; those that JSON has no word for
// are zero.
func floatOf(s string) float64 {
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || f != f || f-f != 0 {
		return 0
	}
	return f
}
