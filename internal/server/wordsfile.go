package server

import (
	"slices"

	"github.com/weirlimit/weir/rules"
)

// WriteWords returns a rules file that limits requests of a domain as a limit in words
// does; without callers, what only callers of /shouldAllowRequest send is left out of one
// that counts by ip, as no request of the gateway or a proxy can meet it.
func WriteWords(text, domain string, callers bool) (string, error) {
	words, err := newWordRules([]string{text}, domain)
	if err != nil {
		return "", err
	}
	l := &words.limits[0]
	lists := l.keyLists()
	if !callers && len(lists) > 1 {
		lists = slices.DeleteFunc(lists, func(keys []string) bool { return slices.Contains(keys, entryClientID) })
	}
	return rules.WordsInFile(domain, lists, l.parts[0].limit, l.all), nil
}
