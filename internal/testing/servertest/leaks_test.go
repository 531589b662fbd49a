package servertest

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that is left is reported.
func TestLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	if err := Leaks(before); err != nil {
		t.Fatal(err)
	}
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		close(begun)
		<-end
		close(ended)
	}()
	<-begun
	if err := goleak.Find(before); err == nil {
		t.Error("a goroutine that is left is not found")
	}
	close(end)
	<-ended
	NoLeaks(t, before)
}
