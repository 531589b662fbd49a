// Command mutants breaks the code in every known way and demands that a test
// notices: a test that was never seen to fail proves nothing.
//
//	go run ./lab/mutants [-list] [-run regexp] [-jobs n] [-write]
//
// A mutant is a file testdata/NN-short-name.patch. NN is the number of a classic
// mistake of rate limiters, 1 to 30; from 31 on come mistakes that only this
// code base can make. A header says what is wrong and who must notice, a unified
// diff makes it so:
//
//	Mistake: refused requests are logged
//	Bit: whom it bit elsewhere
//	Breaks: what goes wrong then
//	Kill: ./algorithm TestOracle/all/sliding_log
//
//	--- a/algorithm/sliding_log.go
//	...
//
// There may be several Kill lines, each a package and a pattern of go test -run
// in which every part stands for a whole name; tests of all of them have to
// fail. A hunk is found by its text, which must occur exactly once; line numbers
// are for the reader.
//
// The command works on copies of the module as it stands, without what git
// ignores. First the tests that are named must pass on the unchanged copy. Then
// each mutant is applied, compiled, tested and taken back. With -write it
// renews the tables of docs/reference/generated/mutants.md. It fails if a mutant survives, does not
// apply or does not compile.
package main
