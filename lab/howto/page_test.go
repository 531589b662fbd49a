package howto

import (
	"fmt"
	"regexp"
	"strings"
)

// A step is what a reader does at one block of a page: writes a file, or types a command.
type step struct {
	line int // of the page, from 1

	file, text string // the file's name, and what is in it

	command string
	output  []string // that the page prints below the command
}

// A page names a file by the last line before its block, which ends with "`NAME`:". A
// command is a line that begins with "$ ", and goes on in lines that begin with "> "; the
// lines below it are its output, in which "..." stands for anything.
var (
	fileName = regexp.MustCompile("`([\\w./-]+\\.\\w+)`:$")
	fence    = regexp.MustCompile("^```([\\w-]*)$")
	// typed finds what a reader would type in a block of no language.
	typed = regexp.MustCompile(`^(weir|curl|go|docker|podman|skopeo|kubectl|helm|dpkg|rpm|systemctl|sha256sum|export|redis-\w+|npm|make|git) `)
)

// consoles are the languages of blocks in which commands are typed.
var consoles = map[string]bool{"": true, "console": true, "sh": true, "bash": true, "shell": true}

// parsePage returns the steps of a page in their order.
func parsePage(text string) ([]step, error) {
	var steps []step
	lines, above := strings.Split(text, "\n"), ""
	for i := 0; i < len(lines); i++ {
		begin := i + 1
		m := fence.FindStringSubmatch(lines[i])
		switch {
		case m != nil:
			var block []string
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				block = append(block, lines[i])
			}
			if i == len(lines) {
				return nil, fmt.Errorf("line %d: the block has no end", begin)
			}
			if name := fileName.FindStringSubmatch(above); name != nil {
				steps = append(steps, step{line: begin, file: name[1], text: strings.Join(block, "\n") + "\n"})
			} else if consoles[m[1]] {
				typed, err := parseConsole(block, begin+1, m[1] != "")
				if err != nil {
					return nil, err
				}
				steps = append(steps, typed...)
			}
		case strings.HasPrefix(lines[i], "    $ "):
			var block []string
			for ; i < len(lines) && strings.HasPrefix(lines[i], "    "); i++ {
				block = append(block, lines[i][4:])
			}
			typed, err := parseConsole(block, begin, true)
			if err != nil {
				return nil, err
			}
			steps = append(steps, typed...)
		}
		if i < len(lines) && strings.TrimSpace(lines[i]) != "" {
			above = lines[i]
		}
	}
	return steps, nil
}

// parseConsole returns the commands of a block. One that only shows text has none, unless
// its language says that it has.
func parseConsole(block []string, line int, must bool) ([]step, error) {
	var steps []step
	more := false // whether the command goes on in the next line
	for i, text := range block {
		command, begins := strings.CutPrefix(text, "$ ")
		rest, goesOn := strings.CutPrefix(text, "> ")
		switch {
		case begins:
			steps = append(steps, step{line: line + i, command: command})
		case len(steps) == 0:
			if must || typed.MatchString(text) {
				return nil, fmt.Errorf("line %d: write \"$ \" before a command: %s", line+i, text)
			}
			return nil, nil
		case more || goesOn && len(steps[len(steps)-1].output) == 0:
			if !goesOn {
				rest = text
			}
			steps[len(steps)-1].command += "\n" + rest
		default:
			last := &steps[len(steps)-1]
			last.output = append(last.output, text)
		}
		more = strings.HasSuffix(text, `\`)
	}
	return steps, nil
}

// matchOutput reports whether a command printed what the page says: each line, in which
// "..." stands for any text, and as a line of its own for any lines. Space at the ends of
// lines and empty lines at the end do not count.
func matchOutput(want []string, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range want {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " \t"), "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern.WriteString(strings.Join(parts, `.*`) + `[ \t\r]*\n`)
	}
	pattern.WriteString(`\s*$`)
	return regexp.MustCompile(pattern.String()).MatchString(strings.TrimRight(got, "\n") + "\n")
}
