// Package credentials verifies what a request says of its sender: JSON Web Tokens by the
// keys of their issuer, and API keys by a file of their digests. [identity.Options] take
// both; a program that asks for neither need not link this package, nor the library for
// tokens that it stands on.
//
// Sources: RFC 7515 (signatures), RFC 7517 (keys), RFC 7519 (tokens), RFC 8725 (how to
// verify them).
package credentials
