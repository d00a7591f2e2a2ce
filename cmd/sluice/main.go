// Command sluice is the whole of Sluice in one binary: the scheduler, the host managers and the command line.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/grpclog"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	"github.com/sluice-scheduler/sluice/hostmgr/local"
)

func main() {
	local.Supervise()
	// What gRPC has to say of connections is told by those who use them.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRootCommand(&app{in: in, out: out, err: errOut})
	root.SetArgs(args)
	root.SetIn(in)
	help := &helpOutput{Writer: out}
	root.SetOut(help)
	root.SetErr(errOut)
	checkCompletion(root)
	checkHelp(root)
	cmd, err := root.ExecuteContextC(ctx)
	err = flaggedBy(cmd, err)
	if err == nil {
		err = help.err
	}
	if err == nil {
		return exitOK
	}
	interrupted := errors.Is(ctx.Err(), context.Canceled)
	var e exitError
	switch {
	case errors.As(err, &e):
	case interrupted && errors.Is(err, context.Canceled):
		e = exitError{exitInterrupted, errors.New("interrupted")}
	default:
		e = exitError{exitFailure, err}
	}
	if e.err != nil {
		fmt.Fprintln(errOut, "sluice: "+words.Visible(e.Error(), "\n\t"))
	}
	if interrupted && e.code != exitOK {
		return exitInterrupted
	}
	return e.code
}

// helpOutput keeps why a help could not be written, which cobra does not tell.
type helpOutput struct {
	io.Writer
	err error
}

// Write implements [io.Writer].
func (h *helpOutput) Write(text []byte) (int, error) {
	n, err := h.Writer.Write(text)
	h.err = cmp.Or(h.err, err)
	return n, err
}

// The exit codes, as the help of the root command documents them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitJobFailed   = 4
	exitUnavailable = 5
	exitRefused     = 6
	exitConflict    = 7
	exitInterrupted = 130
)

const rootHelp = `Sluice schedules jobs on a cluster by min-cost flow.

Begin with "sluice dev", which runs everything in one process on this machine,
and "sluice job submit FILE" in a second terminal.

Settings come from flags, then from the environment (SLUICE_SERVER for server,
SLUICE_LOCAL_HOSTS for local.hosts), then from a YAML file (--config,
SLUICE_CONFIG, or sluice/config.yaml in the user's configuration folder), then
from defaults. "sluice config print" shows them with where they come from.

Exit codes:
  0    done
  1    any other error
  2    wrong usage: flags, arguments, settings, or a file that cannot be read
  3    not found: job, task, pool, host, volume or token
  4    a job that was waited for did not succeed
  5    the scheduler cannot be reached
  6    the scheduler refuses the contents of the request, or who makes it
  7    the request does not fit the present state: exists already, has ended, changed
  130  interrupted`

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "A cluster scheduler that treats placement as one optimization problem",
		Long:          rootHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionLine(),
		Args:          noSubcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if explains(cmd) {
				return nil
			}
			return a.load(cmd)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd, flagError(err))
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentFlags().StringVar(&a.configFile, "config", "", "file with settings")
	config.AddFlags(root.PersistentFlags(), "server", "tls.ca", "tls.cert", "tls.key", "token_file", "output", "reconnect", "log.level", "log.format")
	root.AddCommand(
		newJobCommand(a), newTaskCommand(a), newPoolCommand(a), newHostCommand(a), newVolumeCommand(a), newClusterCommand(a), newGraphCommand(a),
		newTokenCommand(a), newRoleCommand(a), newWhoamiCommand(a), newTLSCommand(a),
		newDevCommand(a), newSchedulerCommand(a), newHostmgrCommand(a),
		newSolveCommand(), newSimCommand(a), newBenchCommand(a), newCountFilesCommand(a), newConfigCommand(a), newVersionCommand(a),
	)
	a.addCompletion(root)
	return root
}

// explains reports whether the command only says how others are used, whatever the settings are.
func explains(cmd *cobra.Command) bool {
	return cmd.HasSubCommands() || cmd.Name() == "help" || cmd.Parent().Name() == "completion" || strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd)
}

// checkCompletion holds the command that cobra adds to what others are held to. Where it prints is settled here.
func checkCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = noSubcommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range c.Commands() {
			shell.Args = wants()
		}
	}
}

// checkHelp lets the command that cobra adds refuse what it cannot explain.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Args = func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil {
				found, rest = root, args
			}
			return noSubcommand(found, rest)
		}
	}
}

// flagError says in words what the value of a flag has to be, where its type is one of those that have no words of their own, and of
// a negative argument that it is none of a flag.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && strings.Trim(unknown.GetSpecifiedShortnames(), "0123456789.") == "" && unknown.GetSpecifiedShortnames() != "" {
		return fmt.Errorf("-%s: no argument is a negative number", unknown.GetSpecifiedShortnames())
	}
	var wrong *pflag.InvalidValueError
	if !errors.As(err, &wrong) {
		return err
	}
	wants := map[string]string{
		"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "bool": "true or false",
		"uint": "a whole number that is not negative", "uint32": "a whole number that is not negative", "uint64": "a whole number that is not negative",
		"float64": "a number such as 0.9", "duration": "a time with a unit, such as 90s or 1h30m",
	}[wrong.GetFlag().Value.Type()]
	switch {
	case wants == "":
		return err
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s: %s is too large", wrong.GetFlag().Name, wrong.GetValue())
	}
	return fmt.Errorf("--%s: %q has to be %s", wrong.GetFlag().Name, wrong.GetValue(), wants)
}

// usageError says what is wrong with the command line and where the help is.
func usageError(cmd *cobra.Command, err error) error {
	return exitError{exitUsage, fmt.Errorf("%w\nSee: %s --help", err, cmd.CommandPath())}
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  noSubcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	g.AddCommand(commands...)
	return g
}

// noSubcommand refuses what was meant as the name of a command.
func noSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %q?", err, closest(args[0], near))
	}
	return usageError(cmd, err)
}

// closest returns the name that begins as what was given, or else the most similar one.
func closest(given string, names []string) string {
	if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, given) }); i >= 0 {
		return names[i]
	}
	return cmp.Or(jobfile.Nearest(given, names), names[0])
}

// filled refuses flags that were given without a value, as from an unset variable: what they were to narrow would be everything, and a key
// would be another one each time.
func filled(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f.Changed && strings.Trim(f.Value.String(), "[]") == "" {
			return usageError(cmd, fmt.Errorf("--%s: is empty: leave it out, or name one", name))
		}
	}
	return nil
}

// alsoFilled checks arguments, and that flags have a value where they are given.
func alsoFilled(args cobra.PositionalArgs, flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		return errors.Join(args(cmd, given), filled(cmd, flags...))
	}
}

// wants checks the number of arguments and names them in the error.
func wants(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError(cmd, fmt.Errorf("%s is missing", names[len(args)]))
		case len(args) > len(names):
			return usageError(cmd, fmt.Errorf("unexpected argument %q", args[len(names)]))
		}
		for i, name := range names {
			if args[i] == "" { // as from an unset variable
				return usageError(cmd, fmt.Errorf("%s is empty", name))
			}
		}
		return nil
	}
}

// mayWant is wants for one argument that may be left out.
func mayWant(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return wants(name)(cmd, args)
	}
}

// wantsNames checks names, of which there may be any number.
func wantsNames(cmd *cobra.Command, args []string) error {
	if slices.Contains(args, "") {
		return usageError(cmd, errors.New("NAME is empty"))
	}
	return nil
}
