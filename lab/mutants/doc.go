// Command mutants breaks the code in known ways, one at a time, and fails unless
// a test notices: a test that was never seen to fail proves nothing.
//
//	go run ./lab/mutants [-list] [-run regexp] [-jobs n] [-write]
//
// The file mutants.txt holds one entry for each promise of the core:
//
//	./algorithm tat.within
//	was t.part <= r
//	now t.part < r
//	kill TestOracle/all/token_bucket
//	harm the last unit of a bucket is never admitted
//
// The first line names a package and a function, a method as Type.method, or a
// declared name. A script is named as file.lua:function, or file.lua alone. The
// text after "was" must occur exactly once in it; white space does not matter.
// The text after "now" replaces it. A text of several lines continues on lines
// that begin with a tab. An empty "now" removes. The test after "kill" is a
// pattern of go test -run in which every part stands for a whole name; a package
// before it, if it is not the package of the code.
//
// The command gives each mutant to go test as an overlay, so that the tree stays
// as it is. First the tests that are named must pass on the unchanged code. It
// fails if a mutant survives, does not apply or does not compile. With -write it
// renews docs/reference/generated/mutants.md from the table.
package main

//go:generate go run . -write
