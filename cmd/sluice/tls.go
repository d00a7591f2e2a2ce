package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
)

func newTLSCommand(a *app) *cobra.Command {
	return group("tls", "Make certificates for the scheduler and those who call it",
		newTLSInitCommand(a), newTLSIssueCommand(a), newTLSRevokeCommand(a))
}

func newTLSInitCommand(a *app) *cobra.Command {
	var hosts []string
	var days int
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make an authority, with the certificates and settings for a start",
		Long: `Make an authority in a new folder, and with it the certificates of the scheduler, of
an operator named admin and of a host manager for the shard local. The files
scheduler.yaml, admin.yaml and local.yaml in the folder are settings for each of
them: sluice --config DIR/scheduler.yaml scheduler.

Whoever has ca-key.pem can be anybody: keep it where only operators get at it.`,
		Args: wants("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if len(hosts) == 0 {
				return usageError(cmd, errors.New("--host: at least one name or address, at which the scheduler is reached"))
			}
			if err := (pki.Request{Name: "scheduler", Hosts: hosts, Days: days}).Validate(); err != nil {
				return usageError(cmd, err)
			}
			if err := initTLS(dir, hosts, days); err != nil {
				return err
			}
			made := map[string]string{
				"dir": dir, "scheduler_config": dir + "/scheduler.yaml", "host_manager_config": dir + "/local.yaml", "operator_config": dir + "/admin.yaml",
			}
			return a.showValue(made, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, `authority, certificates and settings are in %[1]s
scheduler:    sluice --config %[1]s/scheduler.yaml scheduler
host manager: sluice --config %[1]s/local.yaml hostmgr local
operator:     sluice --config %[1]s/admin.yaml role grant submitter --user NAME
`, dir)
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&hosts, "host", []string{"localhost", "127.0.0.1", "::1"}, "names and addresses that the scheduler is reached at")
	cmd.Flags().IntVar(&days, "days", pki.DefaultDays, "how long the certificates are valid")
	return cmd
}

// initTLS makes what "tls init" promises. dir is absolute.
func initTLS(dir string, hosts []string, days int) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"scheduler.yaml", "admin.yaml", "local.yaml"} {
		if _, err := os.Lstat(in(name)); err == nil {
			return fmt.Errorf("%s is there already: it is not replaced; choose a new folder", in(name))
		}
	}
	if err := pki.Init(dir); err != nil {
		return err
	}
	for _, r := range []pki.Request{
		{Name: "scheduler", Hosts: hosts, Days: days},
		{Name: "admin", Groups: []string{"operators"}, Days: days},
		{Name: "local", Groups: []string{"host-managers"}, Days: days},
	} {
		if err := pki.Issue(dir, r); err != nil {
			return err
		}
	}
	// So that there is a list from the beginning, which the settings name: it revokes a certificate that was made for that.
	if err := pki.Issue(dir, pki.Request{Name: "revoked", Days: 1}); err != nil {
		return err
	}
	crl, err := pki.Revoke(dir, filepath.Join(dir, "revoked.pem"))
	if err != nil {
		return err
	}
	err = writeSettings(in("scheduler.yaml"), map[string]any{"scheduler": map[string]any{"tls": map[string]any{
		"cert": in("scheduler.pem"), "key": in("scheduler-key.pem"), "client_ca": in("ca.pem"), "crl": crl,
	}}})
	for _, user := range []string{"admin", "local"} {
		if err == nil {
			err = writeSettings(in(user+".yaml"), map[string]any{"tls": map[string]any{
				"ca": in("ca.pem"), "cert": in(user + ".pem"), "key": in(user + "-key.pem"),
			}})
		}
	}
	return err
}

func writeSettings(path string, settings map[string]any) error {
	content, err := yaml.Marshal(settings)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

func newTLSIssueCommand(a *app) *cobra.Command {
	r := pki.Request{}
	cmd := &cobra.Command{
		Use:   "issue DIR NAME",
		Short: "Make a certificate for a user, a host manager or a server",
		Long: `Make a certificate, NAME.pem, and its key, NAME-key.pem, with the authority in a
folder. NAME is the user; a host manager's is the name of its shard, and its group is
host-managers. With --host it is a server's certificate.`,
		Args: wants("DIR", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[1]
			if err := filled(cmd, "host", "group"); err != nil {
				return err
			}
			if err := r.Validate(); err != nil {
				return usageError(cmd, err)
			}
			if err := pki.Issue(args[0], r); err != nil {
				return unreadable(err)
			}
			cert, key := filepath.Join(args[0], r.Name+".pem"), filepath.Join(args[0], r.Name+"-key.pem")
			return a.showValue(map[string]any{"certificate": cert, "key": key, "days": r.Days}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s and its key, for %s\n", cert, words.Number(r.Days, "day"))
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&r.Groups, "group", nil, "groups of the user")
	cmd.Flags().StringSliceVar(&r.Hosts, "host", nil, "names and addresses of a server")
	cmd.Flags().IntVar(&r.Days, "days", pki.DefaultDays, "how long it is valid")
	return cmd
}

func newTLSRevokeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke DIR FILE",
		Short: "Add a certificate to the list of revoked ones, DIR/crl.pem",
		Long: `Add a certificate to the list of revoked ones, crl.pem in the authority's folder. A
scheduler whose setting scheduler.tls.crl names that file refuses it within a second.
Tokens that its user has made go on: "sluice token revoke" ends them.`,
		Args: wants("DIR", "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			list, err := pki.Revoke(args[0], args[1])
			if err != nil {
				return unreadable(err)
			}
			return a.showValue(map[string]string{"certificate": args[1], "list": list}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s is revoked in %s\n", args[1], list)
				return err
			})
		},
	}
}

// unreadable gives an error about a file that cannot be read its exit code.
func unreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return exitError{exitUsage, err}
	}
	return err
}
