package redis

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// long is the budget of decisions that are not to fail: a machine that is busy with
// other tests can stand still for a second.
const long = 10 * time.Second

// busy is how much later than it should such a machine may do something.
const busy = 20 * time.Second

// TestMain lets more tests run at once than there are processors: most of them
// wait for servers that start, stall and take over.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}
