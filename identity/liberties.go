package identity

import (
	"fmt"

	"github.com/weirlimit/weir/internal/spell"
)

// liberties are ways to write a path that servers read in more than one way.
type liberties uint8

const (
	backslash liberties = 1 << iota
	parameters
	encodedSlash
	emptySegments
	// otherForms is an escape that routers differ in whether to decode, see isOddEscape.
	// Nothing refuses it.
	otherForms
	// looseSlash is an encoded slash or semicolon beside a character that must be escaped. No
	// word allows it.
	looseSlash
)

// libertyWords are what routes allow, in the order of the bits.
var libertyWords = []string{"backslash", "parameters", "encoded_slash", "empty_segments"}

// libertyFaults are what is answered to a path that makes use of one, in the order of
// the bits.
var libertyFaults = [...]*Error{
	pathFault(pathBackslash, `the path holds a backslash (\ or %5C), which some servers take for a slash: leave it out, or let the route allow backslash`),
	pathFault(pathParameters, "the path holds a parameter (from a semicolon on), which some servers cut: escape it as %3B, or let the route allow parameters"),
	pathFault(pathEncodedSlash, "the path holds an escaped slash (%2F), which some servers take for a slash: leave it out, or let the route allow encoded_slash"),
	pathFault(pathEmptySegments, "the path holds two slashes in a row, which some servers take for one: send one, or let the route allow empty_segments"),
	nil,
	pathFault(pathUnreadable, "the path holds an escaped slash or semicolon, and a character that must be escaped and is not"),
}

// libertiesOf reads what a route, or the configuration, allows.
func libertiesOf(words []string) (all liberties, err error) {
next:
	for _, w := range words {
		for i, known := range libertyWords {
			if w == known {
				all |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("allow: %w", spell.Unknown("word", w, libertyWords))
	}
	return all, nil
}

// refusedBut returns the fault of a path that makes use of more than what is allowed,
// nil for none.
func (used liberties) refusedBut(allowed liberties) error {
	for i, fault := range libertyFaults {
		if fault != nil && used&^allowed&(1<<i) != 0 {
			return fault
		}
	}
	return nil
}
