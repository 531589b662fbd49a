package identity

// Error says that a request cannot be read: its method, host or path has no
// canonical form, or two readers may take it for two requests. A front end answers it with Status and Detail.
type Error struct {
	// Status is the HTTP status to answer with, 400.
	Status int
	// Detail is a sentence for the client. It quotes nothing the client sent.
	Detail string
	// counted as, in Failures. Zero is not.
	counted failure
}

func (e *Error) Error() string { return "identity: " + e.Detail }

func badRequest(detail string) *Error { return &Error{Status: 400, Detail: detail} }

func pathFault(f failure, detail string) *Error {
	return &Error{Status: 400, Detail: detail, counted: f}
}

// Faults of requests, made once: a stranger must not make us allocate.
var (
	errMethod       = badRequest("the method is not a token of at most 32 bytes")
	errHost         = badRequest("the host is not a name or address of at most 255 bytes")
	errPathLong     = pathFault(pathUnreadable, "the path is longer than 8192 bytes")
	errPathForm     = pathFault(pathUnreadable, "the path does not begin with a slash")
	errPathEscape   = pathFault(pathUnreadable, "the path holds a percent sign without two hexadecimal digits")
	errPathControl  = pathFault(pathUnreadable, "the path holds a control character")
	errPathDots     = pathFault(pathDots, "the path holds a segment that is . or .. to some servers: send the path that it leads to")
	errPathHost     = pathFault(pathHost, "the path begins with two slashes, behind which some servers find a host: send one")
	errTarget       = badRequest("the request's target holds a character that must be escaped")
	errCredential   = badRequest("a credential is there more than once, or not in the form that it has")
	errQuery        = badRequest("the query holds a percent sign without two hexadecimal digits, or a value that is not UTF-8")
	errCookie       = badRequest("a cookie holds a character that no cookie may hold")
	errReadings     = badRequest("a header field, cookie or parameter that is limited is there too often")
	errProxyField   = badRequest("a header field that the proxy sets is there more than once")
	errPathEncoding = pathFault(pathUnreadable, "the path is not UTF-8")
)
