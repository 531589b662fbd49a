package event

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// drainEvery is how often the ring is emptied: one of 8192 takes 1.6 million
	// decisions a second.
	drainEvery = 5 * time.Millisecond
	// drainAfter is how many records are put into words before the ring is looked
	// after again: that takes 2.5 µs each (BenchmarkTell).
	drainAfter = 1024
	// watchEra is how long an era of watched keys lasts.
	watchEra = time.Minute
	// maxFlush bounds the last attempt to hand over what is left.
	maxFlush = 5 * time.Second
)

// Run turns what is heard into events and hands them to the queue until ctx
// ends; then it hands over what there is and returns. The error says that the
// queue did not take the last events, which are lost.
func (o *Observer) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.Background())
	defer stop()
	var sender sync.WaitGroup
	sender.Go(func() { o.outbox.sendUntilEnd(sending) })

	o.beginCounting()
	drain := time.NewTicker(drainEvery)
	defer drain.Stop()
	for ctx.Err() == nil {
		select {
		case <-drain.C:
		case <-ctx.Done():
		}
		o.drainRing()
		o.handleDue(o.schedule.takeDue(o.opt.Now()))
	}
	o.drainRing()
	o.handleDue(due{records: true, rollups: true})
	close(o.outbox.ending)
	last, cancel := context.WithTimeout(context.Background(), maxFlush)
	defer cancel()
	// A batch that is under way is not to be begun anew.
	defer context.AfterFunc(last, stop)()
	sender.Wait()
	if err := o.outbox.flushEvents(last); err != nil {
		return fmt.Errorf("event: the queue did not take the last events: %w", err)
	}
	return nil
}

// Flush does what Run does at one instant, that of Options.Now, and returns when the
// queue has taken the events. It is for decisions on another clock than the machine's,
// such as those of an hour that is played in a second: call it at the beginning, after
// each second of that clock, and not while another call or Run is under way. The error
// says that the queue did not take events, which are lost.
func (o *Observer) Flush(ctx context.Context) error {
	if o.schedule == nil {
		o.beginCounting()
	}
	o.drainRing()
	o.handleDue(o.schedule.takeDue(o.opt.Now()))
	if err := o.outbox.flushEvents(ctx); err != nil {
		return fmt.Errorf("event: the queue did not take events: %w", err)
	}
	return nil
}

// beginCounting begins what is counted from now on.
func (o *Observer) beginCounting() {
	now := o.opt.Now()
	o.rollups.from = now
	o.rollups.learnLimits()
	o.schedule = newSchedule(o.opt, now)
}

// schedule says what is to be done when.
type schedule struct {
	every, rollupEvery     time.Duration
	records, rollups, turn time.Time
}

// due is what is to be done.
type due struct{ records, rollups, turn bool }

func newSchedule(opt Options, now time.Time) *schedule {
	return &schedule{
		every: opt.Every, rollupEvery: opt.RollupEvery,
		records: now.Truncate(opt.Every).Add(opt.Every),
		rollups: now.Truncate(opt.RollupEvery).Add(opt.RollupEvery),
		turn:    now.Add(watchEra),
	}
}

func (s *schedule) takeDue(now time.Time) (d due) {
	d.records = advanceIfDue(&s.records, s.every, now)
	d.rollups = advanceIfDue(&s.rollups, s.rollupEvery, now)
	d.turn = advanceIfDue(&s.turn, watchEra, now)
	return d
}

// advanceIfDue reports whether an instant has come, and then moves it into the future.
func advanceIfDue(at *time.Time, every time.Duration, now time.Time) bool {
	if now.Before(*at) {
		return false
	}
	*at = at.Add(every * (1 + now.Sub(*at)/every))
	return true
}

// drainRing takes in what waits in the ring.
func (o *Observer) drainRing() {
	// A bound, so that a flood does not put off what is due.
	for range o.ring.mask + 1 {
		s := o.ring.nextSighting()
		if s == nil {
			return
		}
		if r := o.merge.addSighting(s, o.rememberName, s.hash < o.sample); r.count == fastFrom && !r.merged {
			o.fast.install(r, s.hash)
		}
		o.ring.freeSlot()
	}
}

// handleDue does what is due.
func (o *Observer) handleDue(d due) {
	if d.turn {
		o.watched.beginEra()
		o.merge.turnGeneration()
	}
	var events []Event
	if d.records || d.rollups {
		events = o.reportRecords()
	}
	if d.rollups {
		for _, r := range o.rollups.takeRollups(o.opt.Now()) {
			events = append(events, Event{Rollup: r})
		}
		if l := o.Loss(); l != (Loss{}) {
			events = append(events, Event{Loss: &l})
		}
	}
	if len(events) == 0 {
		return
	}
	now := o.opt.Now().UTC()
	for i := range events {
		o.sequence++
		events[i].Source, events[i].Sequence, events[i].Time, events[i].Region = o.source, o.sequence, now, o.opt.Region
	}
	if o.opt.Live != nil {
		_ = o.opt.Live.Publish(context.Background(), events) // once it is closed nobody listens
	}
	o.outbox.addEvents(events)
}

// reportRecords returns the records as events.
func (o *Observer) reportRecords() []Event {
	now := o.opt.Now().UnixMicro()
	o.fast.takeCounts(func(c *fastCell, n int64) { o.merge.addFast(c, n, now) })
	records := o.merge.takeRecords()
	if len(records) == 0 {
		return nil
	}
	for _, r := range records {
		if _, known := o.rollups.words[r.counters]; !known {
			o.rollups.learnLimits()
			break
		}
	}
	// A decision that found no room is missing from nobody knows whose arrivals.
	dropped := o.dropped.Load()
	cut, behind := dropped != o.droppedBefore, o.outbox.isBehind()
	o.droppedBefore = dropped
	events := make([]Event, 0, len(records))
	for _, r := range records {
		r.arrivalsCut = r.arrivalsCut || cut
		if behind {
			r.arrivals, r.arrivalsCut = nil, true
		}
		records := r.buildRecord(o.rollups.words, o.names, o.opt.Sample)
		o.top.addRecord(records)
		if events = append(events, Event{Record: records}); len(events)%drainAfter == 0 {
			o.drainRing() // into the next records
		}
	}
	return events
}
