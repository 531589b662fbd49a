package address

// Beginnings of a header of the PROXY protocol, of versions 1 and 2.
const (
	ProxyV1 = "PROXY "
	ProxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
)
