package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// audit tells who did what with what result: every call that changes something or that hands out everything, and every
// call that was refused for who made it. Of a request it names what it is about and nothing else of it.
func (s *Scheduler) audit(ctx context.Context, c *call, err error) {
	if errors.Is(err, errStalled) { // nothing was done, and the audit log may be on the disk that does not answer
		return
	}
	code := status.Code(err)
	if code == codes.Unknown {
		code = status.FromContextError(err).Code()
	}
	refused := err != nil && c.refused.Load() || code == codes.Unauthenticated || code == codes.PermissionDenied
	if c.audited() || refused {
		s.tellAudit(ctx, c, code.String(), err)
	}
}

// auditBegin tells of a session that begins: it may last for months, and its end goes untold if the scheduler is killed.
func (s *Scheduler) auditBegin(ctx context.Context, c *call) {
	if c.audited() {
		s.tellAudit(ctx, c, "begun", nil)
	}
}

// audited reports whether the call is told of whatever comes of it.
func (c *call) audited() bool { return c.row.audited && !tries(c.request) }

func (s *Scheduler) tellAudit(ctx context.Context, c *call, result string, err error) {
	attrs := []slog.Attr{slog.String("call", strings.TrimPrefix(c.method, "/"+apiPackage+"."))}
	if c.who != nil && !c.who.Free {
		attrs = append(attrs, slog.String("user", c.who.User))
		if len(c.who.Groups) > 0 {
			attrs = append(attrs, slog.Any("groups", c.who.Groups))
		}
	}
	attrs = append(attrs, slog.String("from", c.from))
	if c.request != nil {
		attrs = append(attrs, slog.Attr{Key: "about", Value: slog.GroupValue(about(c.request.ProtoReflect())...)})
	}
	attrs = append(attrs, slog.String("result", result))
	if err != nil {
		attrs = append(attrs, slog.String("error", shorten(status.Convert(err).Message(), maxReason)))
	}
	if traced(ctx) {
		attrs = append(attrs, slog.String("trace", trace.SpanContextFromContext(ctx).TraceID().String()))
	}
	s.config.Audit.LogAttrs(ctx, slog.LevelInfo, "call", attrs...)
}

// auditedFields are those that say what a request is about. No other field is ever told.
var auditedFields = map[protoreflect.Name]bool{
	"name": true, "job": true, "instance": true, "path": true, "pool": true, "owner": true, "user": true, "groups": true, "group": true,
	"role": true, "id": true, "host": true, "shard": true, "action": true, "read_only": true, "scheduling_stopped": true,
	"killing_stopped": true, "version": true, "job_type": true,
}

// auditedMessages are those that are looked into for such fields.
var auditedMessages = map[protoreflect.Name]bool{
	"spec": true, "specs": true, "binding": true, "mode": true, "hello": true, "mapping": true,
}

func about(m protoreflect.Message) []slog.Attr {
	var attrs []slog.Attr
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		switch {
		case !m.Has(f):
		case f.Message() != nil && auditedMessages[f.Name()] && f.IsList():
			for k, list := 0, m.Get(f).List(); k < min(list.Len(), maxViolations); k++ {
				attrs = append(attrs, slog.Attr{Key: item(name, k), Value: slog.GroupValue(about(list.Get(k).Message())...)})
			}
		case f.Message() != nil && auditedMessages[f.Name()]:
			attrs = append(attrs, slog.Attr{Key: name, Value: slog.GroupValue(about(m.Get(f).Message())...)})
		case f.Message() != nil || !auditedFields[f.Name()] || f.Kind() == protoreflect.BytesKind: // nor any map: its entries are messages
		case f.IsList():
			attrs = append(attrs, slog.Any(name, aboutList(f, m.Get(f).List())))
		default:
			attrs = append(attrs, slog.String(name, aboutValue(f, m.Get(f))))
		}
	}
	return attrs
}

// aboutList tells the elements of a list, as many as a valid one of groups may have.
func aboutList(f protoreflect.FieldDescriptor, list protoreflect.List) (elements []string) {
	for k := range min(list.Len(), maxGroups) {
		elements = append(elements, aboutValue(f, list.Get(k)))
	}
	if more := list.Len() - maxGroups; more > 0 {
		elements = append(elements, fmt.Sprintf("… and %d more", more))
	}
	return elements
}

func aboutValue(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.Enum() != nil {
		if word := f.Enum().Values().ByNumber(v.Enum()); word != nil {
			return string(word.Name())
		}
	}
	return shorten(v.String(), maxShownPath)
}
