package serve

import (
	"unicode/utf8"

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
		switch {
		case d.IsMapEntry(): // whose fields are no names of the API
			at = path
		case f.IsList():
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
