package serve

import (
	"context"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one extends
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// codec is gRPC's own, save that a message with text that is not UTF-8 does not fail as a whole, which would leave the
// caller with a message that names no field: it is kept undecoded, in the unknown fields, and the gate, through which
// every message passes, refuses it by field.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, to any) error {
	err := c.CodecV2.Unmarshal(data, to)
	if err == nil {
		return nil
	}
	message, ok := to.(proto.Message)
	if !ok {
		return err
	}
	raw := data.Materialize()
	m := message.ProtoReflect()
	if !findBadText(m.Descriptor(), raw, "", 0, new(violations)) {
		return err
	}
	proto.Reset(message)
	m.SetUnknown(raw)
	return nil
}

// findBadText reports the string fields in an encoded message that are not UTF-8 and whether there are any. Bytes that
// are no protobuf at all end the search.
func findBadText(d protoreflect.MessageDescriptor, raw []byte, path string, depth int, v *violations) (found bool) {
	index := map[protowire.Number]int{}
	for len(raw) > 0 && depth <= maxDepth {
		number, wire, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return found
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(number, wire, raw)
		if size < 0 {
			return found
		}
		value := raw[:size]
		raw = raw[size:]
		f := d.Fields().ByNumber(number)
		if f == nil || wire != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		at := child(path, string(f.Name()))
		if f.IsList() {
			at = item(at, index[number])
			index[number]++
		}
		switch {
		case f.Kind() == protoreflect.StringKind && !utf8.Valid(value):
			v.Invalid(at, "is not valid UTF-8: %s", quote(string(value)))
			found = true
		case f.Message() != nil:
			found = findBadText(f.Message(), value, at, depth+1, v) || found
		}
	}
	return found
}

// gate is what every message from outside passes before anything looks at it.
type gate struct {
	// check refuses a request of the API.
	check func(request proto.Message) error
}

// admit refuses what the codec could not decode, whoever sent it, and checks requests of the API. The streams of host
// managers agree on a protocol version instead of refusing each unknown field.
func (g gate) admit(method string, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	if strings.HasPrefix(method, "/"+apiPackage+".") && !strings.HasPrefix(method, "/"+apiPackage+".HostManagerService/") {
		return g.check(m)
	}
	var v violations
	if r := m.ProtoReflect(); findBadText(r.Descriptor(), r.GetUnknown(), "", 0, &v) {
		return v.Err()
	}
	return nil
}

func (g gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.admit(info.FullMethod, req); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (g gate) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &gatedStream{s, g, info.FullMethod})
}

type gatedStream struct {
	grpc.ServerStream
	gate   gate
	method string
}

// RecvMsg implements grpc.ServerStream.
func (s *gatedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.gate.admit(s.method, m)
}
