package rules

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
// so that a node can hang in several nodes; nodes are never changed.
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
	// name is the key as it is known: in lower case.
	name string
	// merged: the pair comes from a merge key, so that one written out in the
	// same mapping takes its place.
	merged bool
}

// valueOf returns the value of key, nil if there is none.
func (n *node) valueOf(key string) *node {
	if p := n.findPair(key); p != nil {
		return p.value
	}
	return nil
}

// valueOrSelf returns the value of key, or n itself if there is none: the place to
// point at when key is at fault.
func (n *node) valueOrSelf(key string) *node {
	if v := n.valueOf(key); v != nil {
		return v
	}
	return n
}

func (n *node) findPair(key string) *pair {
	if n == nil || n.kind != mapping {
		return nil
	}
	for i := len(n.pairs) - 1; i >= 0; i-- {
		if n.pairs[i].name == key {
			return &n.pairs[i]
		}
	}
	return nil
}

// parseBool11 reads the booleans of YAML 1.1.
func parseBool11(s string) (value, ok bool) {
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
