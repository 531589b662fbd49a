// Package release tests what `make release` builds: it builds the part for linux/amd64,
// installs the package, runs the image, and removes everything again. It is a module of
// its own, so that none of what goreleaser needs is in the graph of those who use this
// project.
package release
