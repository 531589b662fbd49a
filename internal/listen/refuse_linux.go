package listen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// refuseConnects makes a TCP socket that listens deaf to those who begin to connect. Who
// has begun may end: segments without SYN, or with its acknowledgement, pass.
//
// The program is classic BPF. It sees a segment from the TCP header on, whose
// flags are byte 13 (RFC 9293 §3.1).
func refuseConnects(socket syscall.RawConn) error {
	const (
		flagsAt = 13
		syn     = 0x02
		ack     = 0x10
		drop    = 0
		whole   = 0xffffffff
	)
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flagsAt},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: drop},
		{Code: unix.BPF_RET | unix.BPF_K, K: whole},
	}
	var err error
	if wrong := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}); wrong != nil {
		return wrong
	}
	return err
}
