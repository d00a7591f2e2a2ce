package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
)

// exitCodes gives the exit code for each code of the API; others are exitFailure.
var exitCodes = map[codes.Code]int{
	codes.NotFound:           exitNotFound,
	codes.InvalidArgument:    exitRefused,
	codes.Unimplemented:      exitRefused,
	codes.OutOfRange:         exitRefused,
	codes.ResourceExhausted:  exitRefused,
	codes.Unauthenticated:    exitRefused,
	codes.PermissionDenied:   exitRefused,
	codes.AlreadyExists:      exitConflict,
	codes.Aborted:            exitConflict,
	codes.FailedPrecondition: exitConflict,
	codes.Unavailable:        exitUnavailable,
	codes.DeadlineExceeded:   exitUnavailable,
	codes.Canceled:           exitInterrupted,
}

// describe turns an error of the API into one for people: a line for each field that is wrong, else one line. Errors
// that already have an exit code stay as they are.
func (c *client) describe(err error) error {
	var e exitError
	if err == nil || errors.As(err, &e) {
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	code, known := exitCodes[s.Code()]
	if !known {
		code = exitFailure
	}
	if strings.HasPrefix(s.Message(), "unexpected HTTP status code received from server") { // as from the address of the console
		return exitError{exitUnavailable, errors.New(notTheAPI(c.server))}
	}
	switch s.Code() {
	case codes.Unavailable:
		if shardAway(err) || saysWhy(err) {
			return exitError{code, errors.New(s.Message())}
		}
		return exitError{code, fmt.Errorf("the scheduler at %s went away: %s", c.server, s.Message())}
	case codes.DeadlineExceeded:
		return exitError{code, fmt.Errorf("the scheduler at %s did not answer in time", c.server)}
	case codes.Canceled:
		return exitError{code, errors.New("interrupted")}
	}
	return exitError{code, errors.New(strings.Join(words.Problems(err), "\nsluice: "))}
}

// shardAway reports errors of a scheduler that is there, whose host manager is not.
func shardAway(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && slices.ContainsFunc(s.Details(), func(d any) bool {
		_, ok := d.(*errdetails.ResourceInfo)
		return ok
	})
}

// saysWhy reports errors of a scheduler that is there and says why it does not do what it is asked for: it stands by for another one, or its
// disk does not answer.
func saysWhy(err error) bool {
	return slices.ContainsFunc(status.Convert(err).Details(), func(d any) bool {
		info, ok := d.(*errdetails.ErrorInfo)
		return ok && (info.GetReason() == serve.ReasonStandby || info.GetReason() == serve.ReasonStalled)
	})
}
