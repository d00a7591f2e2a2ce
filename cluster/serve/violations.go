package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// Reasons of field violations, beside the description for people. Violations are shown in the order of these words.
const (
	violationInvalid     = "INVALID"
	violationPremature   = "PREMATURE"
	violationUnsupported = "UNSUPPORTED"
)

// Bounds that keep an answer within what clients accept as trailing metadata, however bad the request is. Those that are not
// written in Go take 8 KiB, if nothing else is said, and see a broken stream where there is more.
const (
	maxViolations   = 20
	maxShownValue   = 60
	maxShownPath    = 200
	maxShownWrong   = 1000
	maxText         = 1500 // of the whole sentence
	maxTrailer      = 7 << 10
	shownInSentence = 3
)

// violations collects everything that is wrong with a request. The zero value is empty.
type violations struct {
	list    []*errdetails.BadRequest_FieldViolation
	omitted int
	code    codes.Code // of the gravest one
}

// Invalid says that the value at path is not allowed, and what is.
func (v *violations) Invalid(path, format string, args ...any) {
	v.add(codes.InvalidArgument, path, violationInvalid, fmt.Sprintf(format, args...))
}

// Premature says that the value at path is refused as things are now, and may be taken later.
func (v *violations) Premature(path, format string, args ...any) {
	v.add(codes.FailedPrecondition, path, violationPremature, fmt.Sprintf(format, args...))
}

// Unsupported says that the request is valid, but asks for what this server cannot do.
func (v *violations) Unsupported(path, format string, args ...any) {
	v.add(codes.Unimplemented, path, violationUnsupported, fmt.Sprintf(format, args...))
}

func (v *violations) add(code codes.Code, path, reason, description string) {
	if v.Empty() || code < v.code { // the graver, the lower is its number
		v.code = code
	}
	if v.Full() {
		v.omitted++
		return
	}
	v.list = append(v.list, &errdetails.BadRequest_FieldViolation{
		Field: shorten(path, maxShownPath), Reason: reason, Description: shorten(description, maxShownWrong),
	})
}

// Full reports whether further violations would only be counted.
func (v *violations) Full() bool { return len(v.list) >= maxViolations }

// Empty reports whether nothing is wrong.
func (v *violations) Empty() bool { return len(v.list) == 0 }

// Err returns nil if nothing is wrong, else one status with all violations: Unimplemented if the request would be fine
// for a server that can do more, FailedPrecondition if it would be, or so, at another time, InvalidArgument otherwise.
func (v *violations) Err() error {
	if v.Empty() {
		return nil
	}
	// What is wrong comes before what is merely too early.
	slices.SortStableFunc(v.list, func(a, b *errdetails.BadRequest_FieldViolation) int {
		return strings.Compare(a.Reason, b.Reason)
	})
	return v.status(v.code)
}

func (v *violations) status(code codes.Code) error {
	var b strings.Builder
	for i, f := range v.list {
		if i == shownInSentence {
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if f.Field == "" {
			b.WriteString("the request ")
		} else {
			b.WriteString(f.Field + ": ")
		}
		b.WriteString(f.Description)
	}
	if more := len(v.list) + v.omitted - shownInSentence; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	for list := v.list; ; list = list[:len(list)-1] { // the sentence has counted those that are left out
		err := withDetails(code, b.String(), &errdetails.BadRequest{FieldViolations: list})
		if len(list) == 0 || trailerSize(err) <= maxTrailer {
			return err
		}
	}
}

// fieldError is a status about a single field.
func fieldError(code codes.Code, path, format string, args ...any) error {
	var v violations
	v.Invalid(path, format, args...)
	return v.status(code)
}

// resourceError is a status about something that exists or does not; kind and name say what.
func resourceError(code codes.Code, kind, name, format string, args ...any) error {
	text := fmt.Sprintf("%s %s: %s", kind, quote(name), fmt.Sprintf(format, args...))
	return withDetails(code, text, &errdetails.ResourceInfo{ResourceType: kind, ResourceName: shorten(name, maxShownPath)})
}

// unavailable is a status of a scheduler that is there and does not do what it is asked for; reason says why in a google.rpc.ErrorInfo, with about as its
// metadata.
func unavailable(reason, text string, about map[string]string) error {
	return withDetails(codes.Unavailable, text, &errdetails.ErrorInfo{Reason: reason, Domain: "sluice", Metadata: about})
}

func withDetails(code codes.Code, text string, detail protoadapt.MessageV1) error {
	s := status.New(code, shorten(text, maxText))
	if d, err := s.WithDetails(detail); err == nil {
		s = d
	}
	return s.Err()
}

// trailerSize is what a status takes in the trailer of an answer: the sentence with what is not printable ASCII escaped, and all
// of it in base64.
func trailerSize(err error) int {
	s := status.Convert(err)
	n := base64.RawStdEncoding.EncodedLen(proto.Size(s.Proto()))
	for i := range len(s.Message()) {
		if c := s.Message()[i]; c < ' ' || c > '~' || c == '%' {
			n += 2
		}
		n++
	}
	return n
}

// statusOf turns an error of the writer into a status. Statuses made by a command pass unchanged.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, ErrStopped):
		return status.Error(codes.Unavailable, "the scheduler is stopping: try again when it is back")
	case errors.Is(err, errJournal): // what exactly, and in which file, is for the operator: the scheduler ends with it
		return status.Error(codes.Unavailable, "the change could not be made durable, and the scheduler is stopping: try again when it is back")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		return status.Error(codes.Internal, err.Error())
	}
}

// child extends a field path.
func child(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func entry(path, key string) string { return path + "[" + quote(key) + "]" }

// quote shows a value that a client sent, at a length that suits an error.
func quote(s string) string { return strconv.Quote(shorten(s, maxShownValue)) }

// shorten cuts s to at most n bytes of whole characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
