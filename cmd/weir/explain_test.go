package main

import (
	"testing"

	"github.com/weirlimit/weir/algorithm"
)

// A theorem is of an algorithm that there is: a name that changed is found.
func TestTheoremsAreOfAlgorithms(t *testing.T) {
	for name := range theorems {
		if algorithm.ByName(name) == nil {
			t.Errorf("there is no algorithm %s", name)
		}
	}
}
