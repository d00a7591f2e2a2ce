package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

const (
	connectTimeout = 5 * time.Second
	callTimeout    = 30 * time.Second
	longestCall    = 2 * time.Minute // of those that the scheduler takes its time for: then it ends them itself
	firstPause     = 100 * time.Millisecond
	longestPause   = 2 * time.Second
	maxAnswerBytes = 64 << 20
)

// client speaks with one scheduler.
type client struct {
	conn    *grpc.ClientConn
	server  string // addresses, as configured
	several bool   // schedulers, one of which leads
	shown   config.TLS
	// reconnect is for how long a broken conversation is taken up again.
	reconnect time.Duration
	notes     io.Writer

	jobs    sluicev1.JobServiceClient
	tasks   sluicev1.TaskServiceClient
	pools   sluicev1.PoolServiceClient
	hosts   sluicev1.HostServiceClient
	volumes sluicev1.VolumeServiceClient
	cluster sluicev1.ClusterServiceClient
	access  sluicev1.AccessServiceClient
	places  sluicev1.DiscoveryServiceClient
}

// connect returns a client with a connection that stands: a scheduler that is not there is told at once, while one
// that goes away later is waited for where that makes sense.
func (a *app) connect(ctx context.Context) (*client, error) {
	secure, options, err := a.credentials()
	if err != nil {
		return nil, err
	}
	target, found := a.target()
	conn, err := grpc.NewClient(target, append(slices.Concat(options, found, onlyText), grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: connectTimeout,
		}))...)
	if err != nil {
		return nil, exitError{exitUsage, fmt.Errorf("--server: %w", err)}
	}
	c := &client{
		conn: conn, server: a.config.Server, several: len(a.config.Servers()) > 1, shown: a.config.TLS,
		reconnect: a.config.Reconnect, notes: a.err,
		jobs:    sluicev1.NewJobServiceClient(conn),
		tasks:   sluicev1.NewTaskServiceClient(conn),
		pools:   sluicev1.NewPoolServiceClient(conn),
		hosts:   sluicev1.NewHostServiceClient(conn),
		volumes: sluicev1.NewVolumeServiceClient(conn),
		cluster: sluicev1.NewClusterServiceClient(conn),
		access:  sluicev1.NewAccessServiceClient(conn),
		places:  sluicev1.NewDiscoveryServiceClient(conn),
	}
	if err := c.ready(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *client) close() { _ = c.conn.Close() }

func (c *client) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c.conn.Connect()
	for {
		state := c.conn.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.TransientFailure:
			if c.several {
				break // another one may be about to lead
			}
			_, err := c.access.WhoAmI(ctx, &sluicev1.WhoAmIRequest{})
			why := status.Convert(err).Message()
			if wrong := misdialed(ctx, c.server, c.shown, why); wrong != "" {
				return exitError{exitUnavailable, errors.New(wrong)}
			}
			if strings.Contains(why, syscall.EPIPE.Error()) || strings.Contains(why, syscall.ECONNRESET.Error()) {
				// It has hung up before it was read why: the next attempt may come to know.
				c.conn.ResetConnectBackoff()
				select {
				case <-time.After(firstPause):
					continue
				case <-ctx.Done():
				}
			}
			return c.unreachable(ctx)
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			return c.unreachable(ctx)
		}
	}
}

// misdialed says what is wrong with the settings where a connection with a scheduler failed with the words why, "" if that has to do
// with something else.
func misdialed(ctx context.Context, server string, shown config.TLS, why string) string {
	switch {
	case strings.Contains(why, "does not look like a TLS handshake"):
		return fmt.Sprintf("what answers at %s has no TLS, and tls.ca asks for it: leave out --ca, SLUICE_TLS_CA or the file's tls.ca, or name another address with --server or SLUICE_SERVER", server)
	case strings.Contains(why, "looked like an HTTP/1.1 header"): // as from the address of the console
		return notTheAPI(server)
	case strings.Contains(why, "tls: expired certificate"): // or one that is not valid yet: the word of TLS is the same
		if err := pki.Outdated(shown.Cert, time.Now()); err != nil {
			return fmt.Sprintf("the scheduler at %s refuses the certificate of this command: %v", server, err)
		}
		fallthrough
	case strings.Contains(why, "tls: "):
		return fmt.Sprintf("the scheduler at %s and this command do not trust each other: %s", server, why)
	case strings.Contains(why, "server preface") && shown.CA == "" && withTLS(ctx, server):
		return fmt.Sprintf("what answers at %s has TLS: name its authority with --ca or SLUICE_TLS_CA", server)
	}
	return ""
}

func notTheAPI(server string) string {
	return fmt.Sprintf("what answers at %s is not the API of a scheduler: name its address with --server or SLUICE_SERVER", server)
}

// withTLS reports whether what is at the address begins a conversation with TLS, whomever it trusts. Who has taken the connection
// and said nothing may as well have been a scheduler that ended.
func withTLS(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // nothing is said to it
	conn, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return errors.As(err, new(tls.AlertError))
	}
	_ = conn.Close()
	return true
}

// unreachable says that nobody answered until ctx was over, or that nobody waited any longer.
func (c *client) unreachable(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return exitError{exitInterrupted, errors.New("interrupted")}
	}
	if c.several {
		return exitError{exitUnavailable, fmt.Errorf("none of the schedulers at %s answers and leads; ask one alone with --server to be told why", c.server)}
	}
	return exitError{exitUnavailable, fmt.Errorf(
		"no scheduler answers at %s: start one with `sluice dev`, or name its address with --server or SLUICE_SERVER", c.server)}
}

// connected is what a command does that talks to the scheduler from the beginning: run gets a client, which is closed after it.
// A command whose arguments can be wrong in themselves connects when it has found them right.
func (a *app) connected(run func(cmd *cobra.Command, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer c.close()
		return run(cmd, c, args)
	}
}

// each does something for every name, once where it is given twice, and goes on after one for which that failed, unless nobody answers
// any more. Its error has a line for each that failed, and the exit code of the first.
func each(ctx context.Context, names []string, do func(name string) error) error {
	var errs []error
	done := map[string]bool{}
	for _, name := range names {
		if done[name] {
			continue
		}
		done[name] = true
		err := do(name)
		errs = append(errs, err)
		if err != nil && (codeOf(err) == exitUnavailable || ctx.Err() != nil) {
			break
		}
	}
	return together(errs...)
}

// together returns an error with a line for each that is not nil, and the exit code of the first; nil if there is none.
func together(errs ...error) error {
	var code int
	var lines []string
	for _, err := range errs {
		if err == nil {
			continue
		}
		if lines == nil {
			code = codeOf(err)
		}
		lines = append(lines, err.Error())
	}
	if lines == nil {
		return nil
	}
	return exitError{code, errors.New(strings.Join(lines, "\nsluice: "))}
}

// codeOf returns the exit code that an error leads to.
func codeOf(err error) int {
	e := exitError{code: exitFailure}
	_ = errors.As(err, &e)
	return e.code
}

// versionOfOne gives the version that a flag says a job has to have, nil where it says nothing; several names have no version.
func versionOfOne(cmd *cobra.Command, version uint64, names []string) (*uint64, error) {
	given := uintFlag(cmd, "expected-version", version)
	if given != nil && len(names) > 1 {
		return nil, usageError(cmd, errors.New("--expected-version is about one job"))
	}
	return given, nil
}

// call makes one call and gives its error the form for people.
func call[Req, Res any](ctx context.Context, c *client, f func(context.Context, *Req, ...grpc.CallOption) (*Res, error), req *Req) (*Res, error) {
	return callFor(ctx, callTimeout, c, f, req)
}

// callFor is call with as much patience.
func callFor[Req, Res any](ctx context.Context, patience time.Duration, c *client, f func(context.Context, *Req, ...grpc.CallOption) (*Res, error), req *Req) (*Res, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	res, err := f(ctx, req)
	return res, c.describe(err)
}

// callAgain is call for what a scheduler may be asked for twice: it is asked again while it is away.
func callAgain[Req, Res any](ctx context.Context, c *client, f func(context.Context, *Req, ...grpc.CallOption) (*Res, error), req *Req) (res *Res, err error) {
	err = c.persist(ctx, func(func()) (err error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		res, err = f(ctx, req)
		return err
	})
	return res, err
}

// persist runs attempt until it succeeds or fails for good. While the scheduler is away it tries again with growing
// pauses, until it has been away for the configured time; at once where the scheduler gave up what it told, since whoever
// reads what is printed stood still. attempt has to be able to begin anew, and calls alive when it hears from the scheduler.
func (c *client) persist(ctx context.Context, attempt func(alive func()) error) error {
	pause, heard := firstPause, time.Now()
	told := false
	for {
		answered := false
		err := attempt(func() { answered = true })
		if answered && status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
			continue
		}
		if err == nil || ctx.Err() != nil || !isAway(err) {
			return c.describe(err)
		}
		if answered {
			pause, heard, told = firstPause, time.Now(), false
		}
		who, until := "the scheduler at "+c.server, fmt.Sprintf(" for up to %v", c.reconnect)
		if shardAway(err) {
			who, until = "the host manager", "" // the attempt may give up earlier
		}
		trouble, over := who+" is away", exitError{exitUnavailable, fmt.Errorf("%s has been away for %v", who, c.reconnect)}
		if saysWhy(err) {
			trouble, over.err = status.Convert(err).Message(), c.describe(err)
		}
		if time.Since(heard) > c.reconnect {
			return over
		}
		if !told {
			fmt.Fprintf(c.notes, "sluice: %s, trying again%s\n", trouble, until)
			told = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return c.describe(status.FromContextError(ctx.Err()).Err())
		}
		pause = min(2*pause, longestPause)
	}
}

// isAway reports errors that a scheduler which starts again will mend: the connection broke, or it is stopping.
func isAway(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled:
		return true
	}
	return false
}
