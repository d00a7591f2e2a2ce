package main

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
)

// onlyText refuses to send a message with text that is not UTF-8, which gRPC would refuse without a word on where it is.
var onlyText = []grpc.DialOption{
	grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, res any, conn *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if err := badText(req.(proto.Message)); err != nil {
			return err
		}
		return next(ctx, method, req, res, conn, opts...)
	}),
	grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := next(ctx, desc, conn, method, opts...)
		return textStream{stream}, err
	}),
}

type textStream struct{ grpc.ClientStream }

// SendMsg implements [grpc.ClientStream].
func (s textStream) SendMsg(m any) error {
	if err := badText(m.(proto.Message)); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// badText returns an error that names the first text in a message that is not UTF-8, nil if there is none.
func badText(m proto.Message) error {
	return protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		last := at.Index(-1)
		texts := []any{last.Value.Interface()}
		if last.Step.Kind() == protopath.MapIndexStep {
			texts = append(texts, last.Step.MapIndex().Interface())
		}
		for _, x := range texts {
			if text, ok := x.(string); ok && !utf8.ValidString(text) {
				return exitError{exitUsage, fmt.Errorf("%s: %q is not UTF-8", strings.TrimPrefix(at.Path[1:].String(), "."), text)}
			}
		}
		return nil
	})
}
