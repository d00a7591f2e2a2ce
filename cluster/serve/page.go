package serve

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxPageBytes bounds the records of an answer, so that it stays well below what clients accept as one message. A
// single record may be larger: its spec is bounded by maxSpecBytes.
const maxPageBytes = 1 << 20

// pagedRequest is a request for a page of a list.
type pagedRequest interface {
	proto.Message
	GetPageSize() uint32
	GetPageToken() string
}

// checkPage validates the size and the token of a page.
func checkPage(r pagedRequest, v *violations) {
	if m := r.ProtoReflect(); m.Has(m.Descriptor().Fields().ByName("page_size")) {
		checkRange(int64(r.GetPageSize()), 1, maxPageSize, "", "page_size", v)
	}
	if _, err := openPage(r); err != nil {
		v.Invalid("page_token", "is not of this list: give the token of the page before, and the rest of the request as it was")
	}
}

// page is one page of a list in the making.
type page struct {
	after string // the key of the last record of the page before, "" for the first page
	left  int    // records
	bytes int    // so far
	query uint64
}

// openPage reads the token of a request. A token holds the key where the page before ended and a hash of the request,
// so that a token of another list is not taken for one of this.
func openPage(r pagedRequest) (*page, error) {
	p := &page{left: defaultPageSize, query: queryHash(r)}
	if n := int(r.GetPageSize()); n > 0 {
		p.left = n
	}
	if r.GetPageToken() == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	if err != nil || len(raw) <= 8 || binary.BigEndian.Uint64(raw) != p.query {
		return nil, fieldError(codes.InvalidArgument, "page_token", "is not of this list")
	}
	p.after = string(raw[8:])
	return p, nil
}

// openLong is openPage for lists that were answered as a whole before they had pages: where no size is named, a page has as many
// records as it has room for.
func openLong(r pagedRequest) (*page, error) {
	p, err := openPage(r)
	if err == nil && r.GetPageSize() == 0 {
		p.left = math.MaxInt
	}
	return p, err
}

// Add takes a record into the page and reports whether it has room for it. The first one always has.
func (p *page) Add(record proto.Message) bool {
	n := proto.Size(record)
	if p.left == 0 || p.bytes > 0 && p.bytes+n > maxPageBytes {
		return false
	}
	p.left--
	p.bytes += n
	return true
}

// Token names the page after the record with the key, which is not empty.
func (p *page) Token(key string) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, p.query), key...))
}

// queryHash identifies the request without its paging.
func queryHash(r pagedRequest) uint64 {
	m := proto.Clone(r).ProtoReflect()
	for _, f := range []protoreflect.Name{"page_size", "page_token"} {
		m.Clear(m.Descriptor().Fields().ByName(f))
	}
	h := fnv.New64a()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return 0 // a request that was decoded can be encoded
	}
	_, _ = h.Write([]byte(m.Descriptor().Name()))
	_, _ = h.Write(raw)
	return h.Sum64()
}
