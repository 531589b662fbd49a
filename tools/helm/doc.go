// Package helm tests the chart in deploy/helm with Helm's own engine. It is a module
// of its own, so that none of what Helm needs is in the graph of those who use this
// project.
package helm
