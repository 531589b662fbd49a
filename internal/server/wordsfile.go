package server

import "github.com/weirlimit/weir/rules"

// WriteWords returns a rules file that limits requests of a domain as a limit in words
// does.
func WriteWords(text, domain string) (string, error) {
	words, err := newWordRules([]string{text}, domain)
	if err != nil {
		return "", err
	}
	l := &words.limits[0]
	return rules.WordsInFile(domain, l.keyLists(), l.parts[0].limit, l.all, "enforce", 100), nil
}
