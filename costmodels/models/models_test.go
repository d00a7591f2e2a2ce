package models_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/delay"
	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/costmodels/random"
)

func TestSettingsReachTheModel(t *testing.T) {
	for text, want := range map[string]any{
		"random(seed=7)":                         random.Model{Seed: 7},
		" delay( host_wait = 2s, rack_wait=1m )": delay.Model{HostWait: 2 * time.Second, RackWait: time.Minute},
		"coco(devils=sort scan, disturbance=70)": coco.Model{Devils: []string{"sort", "scan"}, Disturbance: 70},
		"coco()":                                 coco.Model{},
	} {
		m, err := models.New(text)
		require.NoError(t, err, text)
		require.Equal(t, want, m, text)
	}
}

func TestAPolicyIsNamedAsItIsWritten(t *testing.T) {
	for _, text := range []string{
		"sluice", "0.5 quincy + loadspread", "1.25 binpack",
		"sluice; root/batch:stateless = coco; root/batch = sjf + 0.5 quincy; stateless = whare",
	} {
		m, err := models.New(text)
		require.NoError(t, err, text)
		require.Equal(t, text, m.Name())
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "a cost model is missing",
		"sluice +":                          "a cost model is missing",
		"slice":                             `no cost model "slice"; there are: binpack, coco,`,
		"random(sed=1)":                     `random: no setting "sed"; there are: seed`,
		"random(seed)":                      `"seed" is no setting`,
		"random(seed=0)":                    `seed: "0" is no whole number above 0`,
		"random(seed=1, seed=2)":            "seed is set twice",
		"random(seed=99999999999999999999)": "no whole number",
		"delay(rack_wait=2562047h)":         "host_wait and rack_wait must be at most 8760h",
		"delay(host_wait=4)":                `host_wait: "4" is no duration above 0s`,
		"coco(devils=)":                     "devils: an empty list",
		"coco(devils=sort, rabbits=sort)":   `coco: devils: "sort" is one of the rabbits`,
		"coco(rabbits=devil)":               `coco: rabbits: "devil" is one of the devils`,
		"whare(attribute=rack)":             `whare: no setting "attribute"; there are: unknown, starts`,
		"quincy(psi=5000)":                  "quincy: psi must not exceed zone",
		"trivial(x=1)":                      `no setting "x"; there are: none`,
		"random(seed=1":                     "the parentheses do not match",
		"random)":                           "the parentheses do not match",
		"random(seed=1) sluice":             "nothing may follow the settings of random",
		"0 sluice":                          `"0" is no weight`,
		"1.2345 sluice":                     `"1.2345" is no weight`,
		"-1 sluice":                         `"-1" is no weight`,
		"1e3 sluice":                        `"1e3" is no weight`,
		"1001 sluice":                       `"1001" is no weight`,
		"sluice; sjf":                       `"sjf" binds nothing`,
		"sluice; batches = sjf":             `"batches" is no pool (such as root/batch) and no type of job: batch, stateless`,
		"sluice; root/a: = sjf":             `"root/a:" is no pool`,
		"sluice; root/a/ = sjf":             `"root/a/" is no pool`,
		"sluice; root//a:batch = sjf":       `"root//a:batch" is no pool`,
		"sluice; root/a b = sjf":            `"root/a b" is no pool`,
		"sluice; batch = sjf; batch = sjf":  `"batch" is bound twice`,
	} {
		_, err := models.New(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "models: ", text)
	}
}

func TestEveryNameIsAModel(t *testing.T) {
	require.Contains(t, models.Names(), models.Default)
	for _, name := range models.Names() {
		m, err := models.New(name)
		require.NoError(t, err)
		require.Equal(t, name, m.Name())
	}
}

// Every package of a model, and the page about them, shows a configuration that works.
func TestExamplesWork(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	require.NoError(t, err)
	shown := map[string]bool{}
	for _, file := range append(files, "../../docs/cost-models.md") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if _, policy, ok := strings.Cut(line, "cost_model: "); ok {
				policy = strings.Trim(strings.TrimSpace(policy), `"`)
				_, err := models.New(policy)
				require.NoError(t, err, "%s: %s", file, policy)
				shown[filepath.Base(filepath.Dir(file))] = true
			}
		}
	}
	for _, name := range append(models.Names(), "docs") {
		require.True(t, shown[name], "%s shows no configuration", name)
	}
}
