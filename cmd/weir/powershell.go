package main

import (
	"fmt"
	"io"
	"strings"
)

// powershellQuote quotes text for PowerShell.
func powershellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// powershellList writes words as an array.
func powershellList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = powershellQuote(w)
	}
	return "@(" + strings.Join(quoted, ", ") + ")"
}

// powershellCompletion writes a table of the words after each subcommand and after each
// of its flags. Where there is none PowerShell completes files.
func powershellCompletion(w io.Writer, commands []command) error {
	var b strings.Builder
	b.WriteString("# Completion of weir for PowerShell.\n$weirWords = @{\n")
	top := []string{"--help"}
	for _, c := range commands {
		top = append(top, c.name)
		words := append([]string(nil), c.values...)
		for _, f := range c.flags {
			words = append(words, "--"+f.name)
			if f.takesValue {
				fmt.Fprintf(&b, "\t%s = %s\n", powershellQuote(c.name+" --"+f.name), powershellList(f.values))
			}
		}
		fmt.Fprintf(&b, "\t%s = %s\n", powershellQuote(c.name), powershellList(words))
	}
	fmt.Fprintf(&b, "\t'' = %s\n}\n", powershellList(top))
	b.WriteString(`Register-ArgumentCompleter -Native -CommandName weir -ScriptBlock {
	param($wordToComplete, $commandAst, $cursorPosition)
	$given = @($commandAst.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursorPosition } | ForEach-Object { $_.Extent.Text })
	$command = if ($given.Count -gt 1) { $given[1] } else { '' }
	$words = if ($given.Count -gt 2) { $weirWords[$command + ' ' + $given[-1]] } else { $null }
	if ($null -eq $words) { $words = $weirWords[$command] }
	$words | Where-Object { $_ -like "$wordToComplete*" } | ForEach-Object {
		[System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
	}
}
`)
	_, err := io.WriteString(w, b.String())
	return err
}
