package proxyprotocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/address"
)

// Sizes of headers of the PROXY protocol, in bytes.
//
// Source: the PROXY protocol, versions 1 and 2, HAProxy Technologies.
const (
	// minProxy is the shortest that tells the version: a v1 line that says
	// UNKNOWN is 15, the fixed part of v2 is 16.
	minProxy   = 15
	maxProxyV1 = 107
	fixedV2    = 16
	// maxProxyV2 bounds the addresses and extensions of v2. The largest in use,
	// with a client's certificate in them, have one or two thousand.
	maxProxyV2 = 4096
)

var (
	errNoProxy  = errors.New("no PROXY protocol header")
	errV1Long   = errors.New("a PROXY protocol line longer than 107 bytes")
	errV1       = errors.New("a broken PROXY protocol line")
	errV2       = errors.New("a broken PROXY protocol header of version 2")
	errV2Length = fmt.Errorf("a PROXY protocol header with more than %d bytes of addresses and extensions", maxProxyV2)
)

// readHeader reads a PROXY protocol header from r, and not a byte more. It
// returns the client's address, or the zero AddrPort if the header names none
// or says that the proxy itself is speaking: then the peer is the client.
// There is no connection without a header, as a client could leave it out.
func readHeader(r io.Reader) (netip.AddrPort, error) {
	var buf [maxProxyV1]byte
	head := buf[:minProxy]
	if _, err := io.ReadFull(r, head); err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", errNoProxy, err)
	}
	switch {
	case bytes.HasPrefix(head, []byte(address.ProxyV2)):
		return readV2(r, buf[:fixedV2])
	case bytes.HasPrefix(head, []byte(address.ProxyV1)):
		return readV1(r, buf[:], minProxy)
	}
	return netip.AddrPort{}, errNoProxy
}

// readV1 reads the rest of a line of which line[:n] has been read.
func readV1(r io.Reader, line []byte, n int) (netip.AddrPort, error) {
	for line[n-1] != '\n' {
		// So many bytes are missing at least.
		more := 2
		if line[n-1] == '\r' {
			more = 1
		}
		if n+more > len(line) {
			return netip.AddrPort{}, errV1Long
		}
		if _, err := io.ReadFull(r, line[n:n+more]); err != nil {
			return netip.AddrPort{}, fmt.Errorf("%w: %w", errV1, err)
		}
		// Two bytes may hold the end and the first byte of what follows only if
		// the line ends in a bare \n.
		if more == 2 && line[n] == '\n' {
			return netip.AddrPort{}, errV1
		}
		n += more
	}
	return parseV1(string(line[:n]))
}

// parseV1 reads a line with its end.
func parseV1(line string) (netip.AddrPort, error) {
	line, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.ContainsAny(line, "\r\n") {
		return netip.AddrPort{}, errV1
	}
	if line == "PROXY UNKNOWN" || strings.HasPrefix(line, "PROXY UNKNOWN ") {
		return netip.AddrPort{}, nil
	}
	var part [6]string
	rest := line
	for i := range part {
		var more bool
		part[i], rest, more = strings.Cut(rest, " ")
		if more != (i < len(part)-1) {
			return netip.AddrPort{}, errV1
		}
	}
	is4 := part[1] == "TCP4"
	if part[0] != "PROXY" || !is4 && part[1] != "TCP6" {
		return netip.AddrPort{}, errV1
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		a, err := netip.ParseAddr(part[2+i])
		port, ok := parsePort(part[4+i])
		// An IPv4 address may be mapped into TCP6.
		if err != nil || !ok || is4 != (strings.IndexByte(part[2+i], ':') < 0) || strings.IndexByte(part[2+i], '%') >= 0 {
			return netip.AddrPort{}, errV1
		}
		ends[i] = netip.AddrPortFrom(address.Bare(a), port)
	}
	return ends[0], nil
}

// parsePort reads a decimal port.
func parsePort(s string) (uint16, bool) {
	if s == "" || s[0] == '+' || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil
}

// readV2 reads the rest of a header of which all of head but its last byte has
// been read.
func readV2(r io.Reader, head []byte) (netip.AddrPort, error) {
	var zero netip.AddrPort
	if _, err := io.ReadFull(r, head[minProxy:]); err != nil {
		return zero, fmt.Errorf("%w: %w", errV2, err)
	}
	command, family, transport := head[12], head[13]>>4, head[13]&15
	left := int(binary.BigEndian.Uint16(head[14:]))
	if left > maxProxyV2 {
		return zero, errV2Length
	}
	if command != 0x20 && command != 0x21 || family > 3 || transport > 2 {
		return zero, errV2
	}
	var client netip.AddrPort
	if command == 0x21 && (family == 1 || family == 2) {
		// Both addresses, then both ports.
		size := 4
		if family == 2 {
			size = 16
		}
		var buf [36]byte
		ends := buf[:2*size+4]
		if left < len(ends) {
			return zero, errV2
		}
		if _, err := io.ReadFull(r, ends); err != nil {
			return zero, fmt.Errorf("%w: %w", errV2, err)
		}
		left -= len(ends)
		a, _ := netip.AddrFromSlice(ends[:size])
		client = netip.AddrPortFrom(address.Bare(a), binary.BigEndian.Uint16(ends[2*size:]))
	}
	// What is left are extensions, or addresses that say nothing to us: those of
	// LOCAL, of no family or of a Unix socket.
	if _, err := io.CopyN(io.Discard, r, int64(left)); err != nil {
		return zero, fmt.Errorf("%w: %w", errV2, err)
	}
	return client, nil
}
