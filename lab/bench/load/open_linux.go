package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"
)

// glance is the longest wait without a look at whether the context is over.
const glance = 50 * time.Millisecond

// answerBuffer bounds an answer with its header, in bytes.
const answerBuffer = 64 << 10

// Run sends one request for each entry of order, to the server that it names,
// and returns their trips in that order. It fails on the first answer whose
// status is not 200, and on any that does not come whole.
//
// One thread sends, reads and sleeps, with no goroutine to wake in between and
// no garbage collection: where it is allowed to, it runs as soon as it wakes,
// whatever else wants the processor. It never spins, so the servers have the
// processors whenever there is nothing to send or to read.
func (o Open) Run(ctx context.Context, order []uint8) ([]Trip, error) {
	if err := o.check(order); err != nil {
		return nil, err
	}
	r := &opening{Open: o, order: order, trips: make([]Trip, len(order)), free: make([][]*openConn, len(o.Servers)), held: make([][]int, len(o.Servers))}
	for i := range r.trips {
		r.trips[i].Due = o.Due(i)
	}
	var err error
	if r.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	defer syscall.Close(r.epoll)
	defer func() {
		for _, c := range r.conns {
			syscall.Close(c.fd)
		}
	}()
	for to, s := range o.Servers {
		for range o.Connections {
			if err := r.connect(ctx, to, s.Address); err != nil {
				return nil, err
			}
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// What the thread is set to is undone before others may run on it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer sharpen()()
	if err := r.prime(ctx); err != nil {
		return nil, err
	}
	return r.trips, r.run(ctx)
}

// opening is an open loop under way.
type opening struct {
	Open
	order []uint8
	trips []Trip
	epoll int
	conns []*openConn
	// free are the connections to each server that no request is on. The one
	// that was used last is used first, as HTTP clients do.
	free [][]*openConn
	// held are the requests to each server that are due and wait for one.
	held   [][]int
	start  time.Time
	next   int // the first request that was not due yet
	done   int // requests answered
	events [64]syscall.EpollEvent
}

// openConn is one connection of an open loop.
type openConn struct {
	fd, to int
	trip   int // the request that is on it, or one of those below
	in     []byte
	filled int
	size   int // of the answer, 0 until its header is there
}

const (
	noTrip  = -1
	priming = -2 // the first request, which is not counted
)

// connect opens a connection that the runtime's poller knows nothing of: two
// would wake for each answer.
func (r *opening) connect(ctx context.Context, to int, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	c := &openConn{to: to, trip: noTrip, in: make([]byte, answerBuffer)}
	var failed error
	err = raw.Control(func(fd uintptr) { c.fd, failed = syscall.Dup(int(fd)) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("duplicate a connection: %w", err)
	}
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(r.conns))}
	r.conns = append(r.conns, c)
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(r.epoll, syscall.EPOLL_CTL_ADD, c.fd, &event))
}

// prime sends a request on every connection, all at once, and waits for the
// answers. A server closes a connection on which no first request comes for
// some seconds, and as the one used last is used first, many might wait longer.
func (r *opening) prime(ctx context.Context) error {
	r.start = time.Now()
	for _, c := range r.conns {
		c.trip = priming
		if err := r.write(c); err != nil {
			return err
		}
	}
	for primed := 0; primed < len(r.conns); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.wait(r.now() + int64(glance))
		if err != nil {
			return err
		}
		if n == 0 && r.now() >= int64(answerTime) {
			return fmt.Errorf("%d of %d first requests are not answered after %s", len(r.conns)-primed, len(r.conns), answerTime)
		}
		for _, e := range r.events[:n] {
			c := r.conns[e.Fd]
			if err := r.read(c); err != nil {
				return err
			}
			if c.trip == noTrip {
				primed++
			}
		}
	}
	return nil
}

// run sends what is due, reads what has come, and sleeps until there is either.
func (r *opening) run(ctx context.Context) error {
	end := r.trips[len(r.trips)-1].Due + int64(answerTime)
	r.start = time.Now()
	for r.done < len(r.trips) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.send(); err != nil {
			return err
		}
		until := r.now() + int64(glance)
		if r.next < len(r.trips) {
			until = min(until, r.trips[r.next].Due)
		}
		n, err := r.wait(until)
		if err != nil {
			return err
		}
		if n == 0 && r.now() >= end {
			return fmt.Errorf("%d of %d requests are not answered after %s", len(r.trips)-r.done, len(r.trips), time.Since(r.start))
		}
		for _, e := range r.events[:n] {
			if err := r.read(r.conns[e.Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

// now returns nanoseconds since the start.
func (r *opening) now() int64 { return int64(time.Since(r.start)) }

// send sends every request that is due, as far as connections are free. Requests
// to one server do not wait for the connections of another.
func (r *opening) send() error {
	for now := r.now(); r.next < len(r.trips) && r.trips[r.next].Due <= now; r.next++ {
		to := r.order[r.next]
		if len(r.free[to]) == 0 {
			r.held[to] = append(r.held[to], r.next)
			continue
		}
		if err := r.sendOn(r.take(int(to)), r.next); err != nil {
			return err
		}
		now = r.now()
	}
	return nil
}

// take takes a free connection to a server.
func (r *opening) take(to int) *openConn {
	last := len(r.free[to]) - 1
	c := r.free[to][last]
	r.free[to] = r.free[to][:last]
	return c
}

// sendOn sends request i on a connection that none is on.
func (r *opening) sendOn(c *openConn, i int) error {
	c.trip, r.trips[i].Sent = i, r.now()
	return r.write(c)
}

// write writes a request.
func (r *opening) write(c *openConn) error {
	request := r.Servers[c.to].Request
	n, err := transfer(syscall.SYS_WRITE, c.fd, request)
	if err == nil && n < len(request) {
		err = syscall.EAGAIN // its answers are read, so its buffer is empty
	}
	if err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	return nil
}

// wait waits for answers until an instant, and returns how many events there
// are, 0 if it is over.
func (r *opening) wait(until int64) (int, error) {
	rest := timespec{nanoseconds: max(until-r.now(), 0)} // under a second
	// A raw call: the runtime would hand on the thread's processor meanwhile, and
	// the thread would have to get it back.
	n, _, errno := syscall.RawSyscall6(epollPwait2, uintptr(r.epoll), uintptr(unsafe.Pointer(&r.events[0])),
		uintptr(len(r.events)), uintptr(unsafe.Pointer(&rest)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case syscall.EINTR: // a signal of the runtime's
		return 0, nil
	}
	return 0, os.NewSyscallError("epoll_pwait2", errno)
}

// read reads what has come on c.
func (r *opening) read(c *openConn) error {
	n, err := transfer(syscall.SYS_READ, c.fd, c.in[c.filled:])
	switch {
	case err == syscall.EAGAIN:
		return nil
	case err != nil:
		return fmt.Errorf("read an answer: %w", err)
	case n == 0:
		return errors.New("read an answer: unexpected EOF")
	case c.trip == noTrip:
		return errors.New("read an answer that nobody asked for")
	}
	c.filled += n
	if c.size == 0 {
		if c.size, err = answerSize(c.in[:c.filled]); err != nil {
			return err
		}
	}
	switch {
	case c.size > len(c.in) || c.size == 0 && c.filled == len(c.in):
		return fmt.Errorf("an answer is longer than %d bytes", len(c.in))
	case c.size == 0 || c.filled < c.size:
		return nil
	case c.filled > c.size:
		return fmt.Errorf("%d bytes follow an answer", c.filled-c.size)
	}
	if c.trip != priming {
		r.trips[c.trip].Done = r.now()
		r.done++
	}
	c.trip, c.filled, c.size = noTrip, 0, 0
	if held := r.held[c.to]; len(held) > 0 {
		r.held[c.to] = held[1:]
		return r.sendOn(c, held[0])
	}
	r.free[c.to] = append(r.free[c.to], c)
	return nil
}

// transfer reads or writes without waiting.
func transfer(call uintptr, fd int, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// timespec is the kernel's, of 64 bits each on every architecture.
type timespec struct{ seconds, nanoseconds int64 }

// epollPwait2 is the number of epoll_pwait2(2), which waits to the nanosecond,
// on every architecture. Linux has it since 5.11.
const epollPwait2 = 441

// Linux lets a thread oversleep by its timer slack, 50 µs unless it is told
// otherwise: prctl(2), PR_SET_TIMERSLACK, in nanoseconds, 0 for the default.
const setTimerSlack = 29

// Policies of sched_setscheduler(2). A thread of schedFIFO runs as soon as it
// wakes, whatever else wants the processor.
const (
	schedOther = 0
	schedFIFO  = 1
)

// sharpen makes this thread wake when it should, to a few microseconds, until
// the function that it returns is called. Where the system refuses, as it
// refuses schedFIFO to all but root, requests leave later, which Trip.Late
// tells.
func sharpen() (restore func()) {
	set := func(slack uintptr, policy uintptr, priority int32) {
		syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, slack, 0)
		syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, policy, uintptr(unsafe.Pointer(&priority)))
	}
	set(1, schedFIFO, 1)
	return func() { set(0, schedOther, 0) }
}
