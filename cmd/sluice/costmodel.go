package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-scheduler/sluice/costmodels/models"
	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func newCostModelCommand(a *app) *cobra.Command {
	return group("cost-model", "Show and set the cost models in use", newCostModelGetCommand(a), newCostModelSetCommand(a))
}

func newCostModelGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get",
		Short: "Show which cost models are in use, and which there are",
		Args:  wants(),
		RunE: a.connected(func(cmd *cobra.Command, c *client, _ []string) error {
			res, err := call(cmd.Context(), c, c.cluster.GetCostModels, &sluicev1.GetCostModelsRequest{})
			if err != nil {
				return err
			}
			return a.show(res, func(w io.Writer) {
				costModelTable(w, res.GetBindings())
				if fault := res.GetFault(); fault != "" {
					fmt.Fprintf(w, "\nbroken: %s\n%s plans until another one is set\n", fault, res.GetPlanning())
				}
				fmt.Fprintf(w, "\navailable: %s\n", strings.Join(res.GetAvailable(), ", "))
			})
		}),
	}
}

func costModelTable(w io.Writer, bindings []*sluicev1.CostModelBinding) {
	var rows [][]string
	for _, b := range bindings {
		var sum []string
		for _, m := range b.GetModels() {
			text := m.GetName()
			if m.GetWeightMilli() != 1000 {
				text = strconv.FormatFloat(float64(m.GetWeightMilli())/1000, 'f', -1, 64) + " " + text
			}
			sum = append(sum, text)
		}
		shadow := b.GetShadow()
		if shadow != "" {
			shadow += fmt.Sprintf(", every %d cycles", b.GetShadowEvery())
		}
		rows = append(rows, []string{b.GetPool(), b.GetJobType(), strings.Join(sum, " + "), shadow})
	}
	columns(w, "POOL TYPE MODEL SHADOW", rows)
}

const costModelSetHelp = `Set the cost model of the cluster, of a pool and those below it, or of a type of job,
from the next cycle on, in place of the configured one. It stays set over restarts.

  sluice cluster cost-model set "sluice + 0.5 quincy"
  sluice cluster cost-model set sjf --pool root/batch --type batch
  sluice cluster cost-model set sluice --shadow "whare + loadspread" --shadow-every 10
  sluice cluster cost-model set --configured

A model in the shadow plans every so many cycles on the same state. Its plans are not
carried out: what they would change is logged, and counted in the metrics.`

func newCostModelSetCommand(a *app) *cobra.Command {
	b := &sluicev1.CostModelBinding{}
	var configured bool
	cmd := &cobra.Command{
		Use:   "set [MODEL]",
		Short: "Set the cost model of the cluster, a pool or a type of job",
		Long:  costModelSetHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError(cmd, fmt.Errorf("unexpected argument %q", args[1]))
			}
			if (len(args) == 1) == configured {
				return usageError(cmd, errors.New("name a model, or give --configured to take back what was set"))
			}
			if err := filled(cmd, "pool", "type"); err != nil {
				return err
			}
			b.Models = nil
			if len(args) == 1 {
				var err error
				if b.Models, err = weightedModels(args[0]); err != nil {
					return usageError(cmd, err)
				}
			}
			c, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer c.close()
			res, err := call(cmd.Context(), c, c.cluster.SetCostModel, &sluicev1.SetCostModelRequest{Binding: b})
			if err != nil {
				return asTyped(err)
			}
			return a.show(res, func(w io.Writer) { costModelTable(w, res.GetBindings()) })
		},
	}
	cmd.Flags().StringVar(&b.Pool, "pool", "", "only for this pool and those below it")
	cmd.Flags().StringVar(&b.JobType, "type", "", "only for this type of job: batch, stateless, stateful or daemon")
	cmd.Flags().StringVar(&b.Shadow, "shadow", "", "model that plans in the shadow and only reports")
	cmd.Flags().Uint32Var(&b.ShadowEvery, "shadow-every", 0, "cycles between two plans of the shadow")
	cmd.Flags().BoolVar(&configured, "configured", false, "take back what was set: the configured model counts again")
	return cmd
}

// bindingField finds the fields of a binding in an error of the API.
var bindingField = regexp.MustCompile(`(?m)^(sluice: )?binding\.(models\[\d+\]\.name|pool|job_type|shadow_every|shadow): `)

// asTyped gives the arguments of the command in the place of the fields that they became.
func asTyped(err error) error {
	var e exitError
	if !errors.As(err, &e) || e.err == nil {
		return err
	}
	typed := map[string]string{"pool": "--pool", "job_type": "--type", "shadow": "--shadow", "shadow_every": "--shadow-every"}
	e.err = errors.New(bindingField.ReplaceAllStringFunc(e.Error(), func(found string) string {
		part := bindingField.FindStringSubmatch(found)
		return part[1] + cmp.Or(typed[part[2]], "MODEL") + ": "
	}))
	return e
}

// weightedModels reads "sluice + 0.5 sjf(ageing=10)".
func weightedModels(text string) (sum []*sluicev1.WeightedCostModel, err error) {
	parts, err := models.Cut(text, '+')
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		m, err := weightedModel(part)
		if err != nil {
			return nil, err
		}
		sum = append(sum, m)
	}
	return sum, nil
}

// weightedModel reads "0.5 sjf(ageing=10)".
func weightedModel(text string) (*sluicev1.WeightedCostModel, error) {
	bare, _, _ := strings.Cut(text, "(")
	if pieces, _ := models.Cut(text, ';'); len(pieces) > 1 || strings.Contains(bare, "=") {
		return nil, fmt.Errorf("%q: one model at a time: --pool and --type say for which pool or type of job", text)
	}
	weight, name, ok := strings.Cut(text, " ")
	if !ok || strings.Contains(weight, "(") {
		return &sluicev1.WeightedCostModel{Name: text, WeightMilli: 1000}, nil
	}
	w, err := strconv.ParseFloat(weight, 64)
	milli := math.Round(w * 1000)
	if err != nil || !(w >= 0.001 && w <= 1000) || milli/1000 != w {
		return nil, fmt.Errorf("%q is no weight: 0.001 to 1000, with at most three decimals", weight)
	}
	return &sluicev1.WeightedCostModel{Name: strings.TrimSpace(name), WeightMilli: int64(milli)}, nil
}
