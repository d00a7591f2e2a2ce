package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/cycle"
	"github.com/sluice-scheduler/sluice/cluster/journal"
	"github.com/sluice-scheduler/sluice/cluster/knowledge"
	"github.com/sluice-scheduler/sluice/cluster/serve"
	"github.com/sluice-scheduler/sluice/cluster/store"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/console"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// goodbye is how long open calls may take to end when the server stops. Watches do not end by themselves.
const goodbye = 300 * time.Millisecond

// maxHeaderBytes bounds the header of a request for a page.
const maxHeaderBytes = 16 << 10

// A connection that is silent for keepaliveTime has its other end asked whether it is still there, and is given up where no answer comes:
// by clients and host managers in keepalivePatience, by servers in as long again. gRPC lets clients ask no sooner.
const (
	keepaliveTime     = 10 * time.Second
	keepalivePatience = 5 * time.Second
)

// keepingAlive are options of all servers: one that expects fewer such questions hangs up on whoever asks them.
var keepingAlive = []grpc.ServerOption{
	grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTime, MaxConnectionIdle: idleTime}),
	grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
}

// idleTime is how long a connection may be open on which nothing is asked.
const idleTime = 2 * time.Minute

// lockPatience is how long a start waits for the state folder to become free.
const lockPatience = time.Second

// history is what a scheduler goes on with, and where it appends what happens.
type history struct {
	journal serve.Checkpointer
	state   *cluster.State
	members func(context.Context) []*sluicev1.Member // nil: it is alone
	leads   func() error                             // nil: it is alone
	close   func() error
}

// alone opens the history in a state folder of which no other machine has a copy.
func alone(dir string, log *slog.Logger) func() (*history, error) {
	return func() (*history, error) {
		j, err := openJournal(dir, log)
		if err != nil {
			return nil, err
		}
		state, err := journal.Load(j)
		if err != nil {
			return nil, errors.Join(err, j.Close())
		}
		return &history{journal: j, state: state, close: j.Close}, nil
	}
}

// server is a scheduler with its history and its addresses, or one that stands by at them.
type server struct {
	scheduler *serve.Scheduler // nil, as history and console are: it stands by
	history   *history
	grpc      *grpc.Server
	console   *console.Console
	http      *http.Server
	api, web  net.Listener
	audit     *os.File
	traces    *serve.Traces // nil: nothing is traced
	tls       *tls.Config   // nil: without
	log       *slog.Logger
}

// newLogger returns the logger of the long-running commands.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var l slog.LevelVar
	_ = l.UnmarshalText([]byte(c.Level)) // was checked with the settings
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: &l}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: &l}))
}

// openServer opens the history and takes the addresses; nothing is served yet. dir is for what only this process has. Without scheduler.tls
// it asks nobody who he is.
func openServer(c config.Scheduler, dir string, open func() (*history, error), log *slog.Logger) (s *server, err error) {
	tuneRuntime()
	s = &server{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	means, err := readMeans(c)
	if err != nil {
		return s, err
	}
	identity, options, err := s.secure(c)
	if err != nil {
		return s, exitError{exitUsage, err}
	}
	if s.traces, err = openTraces(c.Traces, log); err != nil {
		return s, exitError{exitUsage, fmt.Errorf("scheduler.traces: %w", err)}
	}
	if s.history, err = open(); err != nil {
		return s, err
	}
	audit, err := s.openAudit(c, dir)
	if err != nil {
		return s, err
	}
	if err := s.listen(c); err != nil {
		return s, err
	}
	reach, err := s.reach(c)
	if err != nil {
		return s, exitError{exitUsage, err}
	}
	s.scheduler, err = serve.New(serve.Config{
		Journal:          s.history.journal,
		State:            s.history.state,
		Members:          s.history.members,
		Leads:            s.history.leads,
		Planner:          means.planner,
		Costs:            serve.CostModels{Configured: c.CostModel, Names: models.Names(), New: models.New},
		Logger:           log,
		Identity:         identity,
		Secrets:          means.secrets,
		Reach:            reach,
		Audit:            audit,
		Traces:           s.traces,
		Rest:             new(restCollector).begin,
		Limits:           serve.Limits{Rate: c.Rate, Burst: c.Burst, Streams: c.Streams},
		BatchWindow:      c.BatchWindow,
		SolveBudget:      c.SolveBudget,
		UnreachableAfter: c.UnreachableAfter,
		LostAfter:        c.LostAfter,
		LearnEvery:       c.LearnEvery,
		ModelTimeout:     c.ModelTimeout,
		KeepFinished:     c.KeepFinished,
		CheckpointEvery:  c.CheckpointEvery,
		SlackWindow:      c.SlackWindow,
		SlackMargin:      c.SlackMargin,
		Speculation: knowledge.Speculation{
			Interval: c.SpeculationInterval, After: c.SpeculationAfter,
			SlowTaskPercent: c.SlowTaskPercent, MaxSlowdown: c.SlowHostPercent, MaxCopiesPercent: c.MaxCopiesPercent,
		},
	})
	if err != nil {
		return s, err
	}
	about := serve.About{Version: version, CostModel: c.CostModel, Solver: c.Solver}
	s.console = console.New(serve.NewServer(s.scheduler, about, grpc.Creds(console.Credentials())))
	s.grpc = serve.NewServer(s.scheduler, about, append(options, keepingAlive...)...)
	s.show(s.pages(), c.HTTPListen)
	return s, nil
}

// means are what a scheduler schedules with.
type means struct {
	planner *cycle.Supervisor
	secrets *serve.Keyring
}

// readMeans finds what the settings name. A member looks before it stands by, so that no mistake waits until it is to lead.
func readMeans(c config.Scheduler) (m means, err error) {
	model, err := models.New(c.CostModel)
	if err != nil {
		return m, exitError{exitUsage, fmt.Errorf("--cost-model: %w", err)}
	}
	newSolver, err := registry.Maker(c.Solver)
	if err != nil {
		return m, exitError{exitUsage, fmt.Errorf("--solver: %w", err)}
	}
	if m.secrets, err = keyring(c.SecretKeyFile); err != nil {
		return m, exitError{exitUsage, fmt.Errorf("scheduler.secret_key_file: %w", err)}
	}
	m.planner = cycle.New(model, newSolver)
	bounds := cycle.DefaultOptions()
	bounds.MaxDisplaced, bounds.Patience = c.MaxPreempted, c.Patience
	m.planner.Bound(bounds)
	return m, nil
}

// listen takes the addresses of the API and of the pages.
func (s *server) listen(c config.Scheduler) (err error) {
	if s.api, err = listen(c.Listen, "--listen", apiPart); err != nil {
		return err
	}
	s.web, err = listen(c.HTTPListen, "--http-listen", pagesPart)
	return err
}

// show makes the server of pages at an address. Without TLS nobody is asked who he is.
func (s *server) show(pages http.Handler, address string) {
	s.http = &http.Server{
		Handler: console.Guard(pages, s.tls == nil, address), TLSConfig: s.tls, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 5 * time.Minute, IdleTimeout: idleTime,
	}
}

// openJournal opens the journal in the state folder of a scheduler that is alone, and says what to do when that fails.
func openJournal(dir string, log *slog.Logger) (journal.Journal, error) {
	if err := ownFolder(dir, schedulerMark, memberMark); err != nil {
		return nil, err
	}
	if hasMark(dir, memberMark) {
		return nil, exitError{exitUsage, fmt.Errorf("%s is the state folder of one of several schedulers: set scheduler.member and scheduler.peers, or choose another one with --state-dir", dir)}
	}
	return lockJournal(dir, log)
}

// lockJournal opens the journal in a state folder.
func lockJournal(dir string, log *slog.Logger) (j journal.Journal, err error) {
	err = unlocked(dir, func() (err error) {
		j, err = journal.Open(filepath.Join(dir, "journal"), store.Options{Warn: func(m string) { log.Warn(m) }})
		if err != nil {
			err = fmt.Errorf("%w; the state folder is --state-dir", err)
		}
		return err
	})
	return j, err
}

// unlocked opens what holds a lock in a state folder. It waits a moment for that: a scheduler that was killed may go on to hold it through
// a process that it was about to start.
func unlocked(dir string, open func() error) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(lockPatience / 20) {
		err := open()
		switch {
		case !errors.Is(err, store.ErrLocked):
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("the state folder %s is in use by another sluice: stop it, or choose another folder with --state-dir", dir)
		}
	}
}

// What a state folder has of each part that has worked there. A scheduler has one or both of two: alone, and as a member of several.
var (
	schedulerMark = filepath.Join("journal", "FORMAT")
	memberMark    = filepath.Join("replica", "FORMAT")
	localMark     = "format"
	mesosMark     = "framework"
)

// ownFolder refuses the state folder of another part, which begins with one of its own. One that has been both goes on.
func ownFolder(dir string, own ...string) error {
	if slices.ContainsFunc(own, func(mark string) bool { return hasMark(dir, mark) }) {
		return nil
	}
	for _, other := range []struct{ mark, whose string }{
		{schedulerMark, "a scheduler"}, {memberMark, "a scheduler"}, {localMark, "`sluice hostmgr local`"}, {mesosMark, "`sluice hostmgr mesos`"},
	} {
		if hasMark(dir, other.mark) {
			return exitError{exitUsage, fmt.Errorf("%s is the state folder of %s: choose another one with --state-dir", dir, other.whose)}
		}
	}
	return nil
}

func hasMark(dir, mark string) bool {
	_, err := os.Stat(filepath.Join(dir, mark))
	return err == nil
}

// What part of the files that the process may have open connections may take: one in so many. The journal needs the others, and a
// scheduler whose journal can open none has to stop. Connections beyond that wait until others end.
const (
	apiPart   = 2
	pagesPart = 8
)

// listen takes an address.
func listen(address, flag string, part uint64) (net.Listener, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("look how many files may be open: %w", err)
	}
	l, err := (&net.ListenConfig{KeepAliveConfig: endTCP}).Listen(context.Background(), "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is in use, perhaps by another sluice: stop it, or choose another with %s", address, flag)
	case err != nil:
		return nil, fmt.Errorf("%w; %s chooses another address", err, flag)
	}
	return netutil.LimitListener(l, int(min(files.Cur/part, math.MaxInt32))), nil
}

// pages serves the console, metrics and profiles.
func (s *server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", s.console)
	mux.Handle("GET /metrics", s.scheduler.Protect(s.scheduler.MetricsHandler(), true))
	for path, page := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("/debug/pprof/"+path, s.scheduler.Protect(page, false))
	}
	return mux
}

// parts returns what has to run side by side; each ends when ctx does, save the gRPC server, which stopServing ends.
func (s *server) parts() []func(context.Context) error {
	parts := []func(context.Context) error{
		func(context.Context) error {
			if err := s.grpc.Serve(s.api); !errors.Is(err, grpc.ErrServerStopped) { // before it began
				return err
			}
			return nil
		},
		func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
			defer stop()
			serve := s.http.Serve
			if s.tls != nil {
				serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
			}
			if err := serve(s.web); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	if s.scheduler != nil {
		parts = append(parts, s.scheduler.Run, s.console.Serve)
	}
	return parts
}

// stopServing lets calls in progress end, but not for long. One that writes to the audit log may hang with its disk.
func (s *server) stopServing() {
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	for _, then := range []func(){s.grpc.Stop, func() {}} {
		select {
		case <-ended:
			return
		case <-time.After(goodbye):
			then()
		}
	}
}

// close releases what openServer took. Whatever ran has to have ended.
func (s *server) close() error {
	var errs []error
	for _, l := range []net.Listener{s.api, s.web} {
		if l == nil {
			continue
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Close())
	}
	if s.history != nil {
		errs = append(errs, s.history.close())
	}
	if s.traces != nil {
		s.traces.Close()
	}
	return errors.Join(errs...)
}
