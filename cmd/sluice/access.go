package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/words"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newWhoamiCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who the scheduler takes you for, and your roles",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.access.WhoAmI, &sluicev1.WhoAmIRequest{})
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) {
				if !res.GetIdentified() {
					fmt.Fprintln(w, "the scheduler asks nobody: everybody on its machine may do everything")
					return
				}
				var roles []string
				for _, b := range res.GetRoles() {
					roles = append(roles, roleWord(b.GetRole())+" in "+b.GetPool())
				}
				properties(w, [2]string{"user", res.GetUser()}, [2]string{"groups", strings.Join(res.GetGroups(), ", ")},
					[2]string{"job", res.GetJob()}, [2]string{"roles", cmp.Or(strings.Join(roles, ", "), "-")})
			})
		}),
	}
}

func newTokenCommand(a *app) *cobra.Command {
	return group("token", "Make and revoke tokens, which stand in for a client certificate",
		newTokenCreateCommand(a), newTokenListCommand(a), newTokenRevokeCommand(a))
}

func newTokenCreateCommand(a *app) *cobra.Command {
	r := &sluicev1.CreateTokenRequest{}
	var lifetime time.Duration
	var file string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token and print it, once",
		Long: `Make a token and print it. The scheduler keeps a hash of it only: what is lost cannot
be shown again. With --out it goes to a file that only you can read, for --token-file.`,
		Args: wants(),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if file == "-" {
				return noStream("out")
			}
			return filled(cmd, "job")
		},
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			if lifetime != 0 {
				r.Lifetime = durationpb.New(lifetime)
			}
			var out *os.File
			var err error
			if file != "" { // before the token is made, so that it is not lost
				if out, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
					return exitError{exitUsage, fmt.Errorf("--out: %w", err)}
				}
			}
			res, err := call(cmd.Context(), c, c.access.CreateToken, r)
			if out != nil {
				if err != nil {
					return errors.Join(err, out.Close(), os.Remove(file))
				}
				_, err = fmt.Fprintln(out, res.GetSecret())
				if err = errors.Join(err, out.Close()); err != nil {
					return err
				}
				res.Secret = ""
			}
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) {
				if file == "" {
					fmt.Fprintln(w, res.GetSecret())
					return
				}
				fmt.Fprintf(w, "token %s for user %s is in %s\n", res.GetToken().GetId(), res.GetToken().GetUser(), file)
			})
		}),
	}
	cmd.Flags().StringVar(&r.User, "user", "", "whom it stands for; empty: you")
	cmd.Flags().StringSliceVar(&r.Groups, "group", nil, "groups of the user")
	cmd.Flags().DurationVar(&lifetime, "lifetime", 0, "how long it is valid, such as 8h; 0: 30 days")
	cmd.Flags().StringVar(&r.Job, "job", "", "job that it is good for, and nothing else")
	cmd.Flags().StringVar(&r.Note, "note", "", "what it is for")
	cmd.Flags().StringVar(&file, "out", "", "new file for the token")
	return cmd
}

func newTokenListCommand(a *app) *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your tokens; for an operator, those of everybody",
		Args:  alsoFilled(wants(), "user"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			all := &sluicev1.ListTokensResponse{}
			_, err := pages(0, func(_ uint32, token string) (int, string, error) {
				res, err := call(cmd.Context(), c, c.access.ListTokens, &sluicev1.ListTokensRequest{User: user, PageToken: token})
				all.Tokens = append(all.Tokens, res.GetTokens()...)
				return len(res.GetTokens()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.show(all, func(w io.Writer) { tokenTable(w, all.GetTokens()) })
		}),
	}
	cmd.Flags().StringVar(&user, "user", "", "only tokens of this user")
	return cmd
}

func tokenTable(w io.Writer, tokens []*sluicev1.Token) {
	var rows [][]string
	for _, t := range tokens {
		rows = append(rows, []string{
			t.GetId(), t.GetUser(), strings.Join(t.GetGroups(), ","), words.Time(t.GetCreateTime()), words.Time(t.GetExpireTime()), t.GetNote(),
		})
	}
	columns(w, "ID USER GROUPS CREATED EXPIRES NOTE", rows)
}

func newTokenRevokeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token at once",
		Args:  wants("ID"),
		RunE: a.connected(func(cmd *cobra.Command, c *client, args []string) error {
			res, err := call(cmd.Context(), c, c.access.RevokeToken, &sluicev1.RevokeTokenRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) { fmt.Fprintf(w, "token %s is revoked\n", args[0]) })
		}),
	}
}

func newRoleCommand(a *app) *cobra.Command {
	return group("role", "Say who may do what", newRoleListCommand(a),
		roleChange(a, "grant ROLE", "Give a user or a group a role", "has", func(c *client, cmd *cobra.Command, b *sluicev1.RoleBinding) error {
			_, err := call(cmd.Context(), c, c.access.GrantRole, &sluicev1.GrantRoleRequest{Binding: b})
			return err
		}),
		roleChange(a, "revoke ROLE", "Take a role from a user or a group", "does not have", func(c *client, cmd *cobra.Command, b *sluicev1.RoleBinding) error {
			_, err := call(cmd.Context(), c, c.access.RevokeRole, &sluicev1.RevokeRoleRequest{Binding: b})
			return err
		}))
}

// roleWord is the word for a role on the command line.
func roleWord(r sluicev1.Role) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(r.String(), "ROLE_"), "_", "-"))
}

// roleWords are the words for all roles, that of role 1 first.
func roleWords() (all []string) {
	for r := range len(sluicev1.Role_name) - 1 {
		all = append(all, roleWord(sluicev1.Role(r+1)))
	}
	return all
}

func roleChange(a *app, use, short, now string, change func(*client, *cobra.Command, *sluicev1.RoleBinding) error) *cobra.Command {
	b := &sluicev1.RoleBinding{}
	cmd := &cobra.Command{
		Use:   use + " --user USER|--group GROUP",
		Short: short,
		Long:  short + ": " + strings.Join(roleWords(), ", ") + `.`,
		Args:  wants("ROLE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.Role = sluicev1.Role(slices.Index(roleWords(), args[0]) + 1)
			switch {
			case b.Role == 0:
				return usageError(cmd, fmt.Errorf("role: %q is none of %s", args[0], strings.Join(roleWords(), ", ")))
			case (b.User == "") == (b.Group == ""):
				return usageError(cmd, errors.New("either --user or --group says who"))
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			if err := change(c, cmd, b); err != nil {
				return flagged(err)
			}
			pool := b.GetPool()
			if pool == "" {
				pool = "root"
			}
			return a.show(b, func(w io.Writer) {
				fmt.Fprintf(w, "%s %s the role %s in %s\n", b.GetUser()+b.GetGroup(), now, args[0], pool)
			})
		},
	}
	cmd.Flags().StringVar(&b.User, "user", "", "a user")
	cmd.Flags().StringVar(&b.Group, "group", "", "a group")
	cmd.Flags().StringVar(&b.Pool, "pool", "", "pool that it holds in, and in all below; empty: root")
	return cmd
}

func newRoleListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List who holds which role; those of the configuration are not listed",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			all := &sluicev1.ListRolesResponse{}
			_, err := pages(0, func(_ uint32, token string) (int, string, error) {
				res, err := call(cmd.Context(), c, c.access.ListRoles, &sluicev1.ListRolesRequest{PageToken: token})
				all.Bindings = append(all.Bindings, res.GetBindings()...)
				return len(res.GetBindings()), res.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			return a.show(all, func(w io.Writer) {
				var rows [][]string
				for _, b := range all.GetBindings() {
					rows = append(rows, []string{roleWord(b.GetRole()), b.GetUser(), b.GetGroup(), b.GetPool()})
				}
				columns(w, "ROLE USER GROUP POOL", rows)
			})
		}),
	}
}
