package pauses

import "time"

// Fill sets those of a client's bounds that are zero to what every client has: ten
// seconds that one waits, 1024 who wait at a time, an hour that a key is left alone.
func Fill(wait *time.Duration, waiting *int, pause *time.Duration) {
	if *wait == 0 {
		*wait = 10 * time.Second
	}
	if *waiting == 0 {
		*waiting = 1024
	}
	if *pause == 0 {
		*pause = time.Hour
	}
}
