package identity

// Error says that a request cannot be read: its method, host or path has no
// canonical form, or two readers may take it for two requests. A front end answers it with Status and Detail.
type Error struct {
	// Status is the HTTP status to answer with, 400.
	Status int
	// Detail is a sentence for the client. It quotes nothing the client sent.
	Detail string
}

func (e *Error) Error() string { return "identity: " + e.Detail }

func bad(detail string) *Error { return &Error{Status: 400, Detail: detail} }

// Faults of requests, made once: a stranger must not make us allocate.
var (
	errMethod       = bad("the method is not a token of at most 32 bytes")
	errHost         = bad("the host is not a name or address of at most 255 bytes")
	errPathLong     = bad("the path is longer than 8192 bytes")
	errPathForm     = bad("the path does not begin with a slash")
	errPathEscape   = bad("the path holds a percent sign without two hexadecimal digits")
	errPathControl  = bad("the path holds a control character")
	errPathLoose    = bad("the path holds an escaped slash and a character that must be escaped and is not")
	errTarget       = bad("the request's target holds a character that must be escaped")
	errCredential   = bad("a credential is there more than once, or not in the form that it has")
	errReadings     = bad("a header field, cookie or parameter that is limited is there too often")
	errProxyField   = bad("a header field that the proxy sets is there more than once")
	errPathEncoding = bad("the path is not UTF-8")
)
