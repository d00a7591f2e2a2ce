package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/config"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/pki"
	"github.com/sluice-scheduler/sluice/hostmgr/mesos"
)

// mesosKeys are the settings of commands with a host manager for Mesos that have flags of their own.
var mesosKeys = []string{
	"mesos.master", "mesos.name", "mesos.user", "mesos.roles", "mesos.principal", "mesos.secret_file", "mesos.failover_timeout",
	"mesos.gpus", "mesos.revocable", "mesos.rack_attribute", "mesos.zone_attribute", "mesos.tls.ca", "mesos.tls.cert", "mesos.tls.key",
}

func newHostmgrMesosCommand(a *app) *cobra.Command {
	var giveUp string
	cmd := &cobra.Command{
		Use:   "mesos",
		Short: "Run tasks on an Apache Mesos cluster",
		Long: `Run tasks on the Apache Mesos cluster whose masters --master names, for the scheduler
at --server. Tasks run on while the host manager is away, for at most
--failover-timeout, and it finds them again when it starts with the same state
folder. Several clusters have a host manager each, with a name each (--shard).`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			outliveReader()
			c := a.config
			conn, err := a.dialScheduler()
			if err != nil {
				return err
			}
			m, err := openMesos(c.Mesos, c.Mesos.StateDir, giveUp, conn, newLogger(a.err, c.Log))
			if err != nil {
				return errors.Join(err, conn.Close())
			}
			fmt.Fprintf(a.out, "host manager: agents of the Mesos cluster at %s as %s/... for the scheduler at %s, state in %s\n",
				c.Mesos.Master, c.Mesos.Shard, c.Server, c.Mesos.StateDir)
			return runUntil(cmd.Context(), []func(context.Context) error{m.run}, func() {}, func() error {
				return errors.Join(m.driver.Close(), conn.Close())
			})
		},
	}
	cmd.Flags().StringVar(&giveUp, "new-framework", "", "id of a framework to give up, with its tasks, if the state folder remembers that one: a new one begins")
	config.AddFlags(cmd.Flags(), append(mesosKeys, "mesos.shard", "mesos.state_dir")...)
	return cmd
}

// openMesos prepares the driver and the shard; nothing runs yet.
func openMesos(c config.Mesos, dir, giveUp string, conn *grpc.ClientConn, log *slog.Logger) (*manager, error) {
	if err := ownFolder(dir, mesosMark); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--state-dir: %w", err)
	}
	secret := ""
	if c.SecretFile != "" {
		content, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, exitError{exitUsage, fmt.Errorf("mesos.secret_file: %w", err)}
		}
		secret = strings.TrimRight(string(content), "\r\n")
	}
	secure, err := mesosTLS(c.TLS)
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	volume, _ := jobfile.ParseBytes(c.VolumeSize) // was checked with the settings
	driver, err := mesos.New(mesos.Config{
		Dir: filepath.Join(dir, "framework"), Masters: c.Master, Name: c.Name, User: c.User, Roles: strings.Split(c.Roles, ","),
		Principal: c.Principal, Secret: secret, WebUIURL: c.WebUIURL,
		FailoverTimeout: c.FailoverTimeout, NoCheckpoint: !c.Checkpoint, GPUs: c.GPUs, Revocable: c.Revocable,
		PartitionUnaware: !c.PartitionAware, JSON: c.JSON,
		RackAttribute: c.RackAttribute, ZoneAttribute: c.ZoneAttribute, GPUModelAttribute: c.GPUAttribute,
		OfferHold: c.OfferHold, DeclineFor: c.DeclineFor, IdleAfter: c.IdleAfter, OfferWait: c.OfferWait,
		MaintenanceLead: c.MaintenanceLead, ReconcileEvery: c.ReconcileEvery, VolumeBytes: volume,
		GiveUp: giveUp, TLS: secure, Log: log,
	})
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	return newManager(driver, "mesos", c.Shard, dir, conn, log)
}

// mesosTLS returns how to connect to masters, nil for plain HTTP.
func mesosTLS(c config.MesosTLS) (*tls.Config, error) {
	if !c.Enabled && c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("mesos.tls.ca: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("mesos.tls.ca: %s holds no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" {
		var err error
		if secure.GetClientCertificate, err = pki.Shown(c.Cert, c.Key); err != nil {
			return nil, fmt.Errorf("mesos.tls.cert: %w", err)
		}
	}
	return secure, nil
}
