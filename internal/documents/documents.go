// Package documents is what nodes use to share small documents, such as what operators
// have changed, beside the counters of a store.
package documents

import (
	"context"
	"errors"
)

// Board is a store that keeps small documents beside its counters, where every
// node that shares it sees them. It is an optional interface of a weir.Store.
// Implementations are safe for concurrent use.
type Board interface {
	// ReadDocument returns the document of a name. Its Data is nil if its version
	// is known: the reader then has it. Version 0 says that there is none.
	ReadDocument(ctx context.Context, name string, known int64) (Document, error)
	// SwapDocument puts d in the place of the document of a name if that is still
	// of version was, 0 for none, and returns it with its new version, which is
	// above was and d.Version. Else it returns ErrChanged, and changes nothing.
	// After another error the change may have been made all the same.
	SwapDocument(ctx context.Context, name string, was int64, d Document) (Document, error)
}

// Document is what a [Board] keeps under a name.
type Document struct {
	// Version tells the document from what was there before: it grows with every
	// change.
	Version int64
	// Now is the store's time of the answer, in microseconds since the Unix epoch.
	Now int64
	// Data is at most MaxDocument bytes.
	Data []byte
}

// MaxDocument is the largest document of a [Board], in bytes.
const MaxDocument = 4 << 20

// Can be returned by a [Board].
var (
	// ErrChanged: the document is of another version. Read it again.
	ErrChanged = errors.New("weir: the document was changed meanwhile")
	// ErrNoBoard: the store keeps no documents.
	ErrNoBoard = errors.New("weir: this store keeps no documents")
	// ErrDocument: what is kept under the name is no document, or a document is
	// larger than MaxDocument.
	ErrDocument = errors.New("weir: not a document")
)
