package jobfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	sluicev1 "github.com/sluice-scheduler/sluice/proto/sluice/v1"
)

func Example() {
	jobs, err := Jobs("hello.yaml", []byte(`
name: hello
instances: 3
task:
  processes:
    - shell: echo "hello from $SLUICE_INSTANCE"
  resources: {cpu: 500m, memory: 64Mi}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := jobs[0].Task.Resources
	fmt.Println(jobs[0].Name, jobs[0].GetInstances(), r.CpuMilli, r.MemoryBytes)
	_, err = Jobs("hello.yaml", []byte("name: hello\ninstnces: 3\n"))
	fmt.Println(err)
	// Output:
	// hello 3 500 67108864
	// hello.yaml:2:1: unknown key "instnces": did you mean "instances"?
}

// full holds every rule of the format at least once.
const full = `
name: train
type: stateless
instances: 4
labels: {app: web}
priority: 7
preemptible: false
kill_grace: 1m30s
limits: {max_run_time: 2h, deadline: 2026-05-01T12:00:00Z, max_running_instances: 0}
gang: {}
constraints:
  - expression:
      any_of:
        - label: {kind: host, key: zone, value: a, comparison: greater}
        - all_of:
            - label: {kind: task, key: app, comparison: less, requirement: 2}
spread:
  - {domain: rack, max_per_domain: 2, selector: {app: web}}
locality:
  inputs:
    - {name: logs, size: 1.5Gi, replicas: [{rack: r1}, {host: local/h0}]}
depends_on:
  - {job: prepare, condition: succeeded}
preemption: {action: requeue, on_preempt: [sh, -c, save]}
update: {batch_percent: 10, order: start_first}
secrets:
  - {name: key, path: /run/key, value: "s3cret"}
task:
  log_limit: 1M
  processes:
    - name: main
      shell: |
        echo one
        echo two
      environment: {PORT: "80"}
      container: {runtime: docker, image: busybox, image_size: 2Mi}
      health_checks:
        - {http: {port: {name: http}, path: /ok}, failure_threshold: 2}
      resources:
        cpu: 1.25
        memory: 100
        network_per_second: 1k
        gpu: {milli: 500, models: [a100]}
        ports: {numbers: [80, 443], dynamic: 1}
        named: {licence: 1}
  volumes:
    - {scratch: 1Gi, mount_path: /tmp/x}
`

const fullText = `
name: "train" type: JOB_TYPE_STATELESS instances: 4 labels: {key: "app" value: "web"} priority: 7 preemptible: false
kill_grace: {seconds: 90}
limits: {max_run_time: {seconds: 7200} deadline: {seconds: 1777636800} max_running_instances: 0}
gang: {}
constraints: {expression: {any_of: {
  operands: {label: {kind: HOST key: "zone" value: "a" comparison: GREATER}}
  operands: {all_of: {operands: {label: {kind: TASK key: "app" comparison: LESS requirement: 2}}}}}}}
spread: {domain: "rack" max_per_domain: 2 selector: {key: "app" value: "web"}}
locality: {inputs: {name: "logs" bytes: 1610612736 replicas: {rack: "r1"} replicas: {host: "local/h0"}}}
depends_on: {job: "prepare" condition: SUCCEEDED}
preemption: {action: REQUEUE on_preempt: {args: "sh" args: "-c" args: "save"}}
update: {batch_percent: 10 order: START_FIRST}
secrets: {name: "key" path: "/run/key" value: "s3cret"}
task: {
  log_limit_bytes: 1000000
  processes: {
    name: "main" shell: "echo one\necho two\n" environment: {key: "PORT" value: "80"}
    container: {runtime: DOCKER image: "busybox" image_bytes: 2097152}
    health_checks: {http: {port: {name: "http"} path: "/ok"} failure_threshold: 2}
    resources: {cpu_milli: 1250 memory_bytes: 100 network_bytes_per_second: 1000 gpu: {milli: 500 models: "a100"}
      ports: {numbers: 80 numbers: 443 dynamic: 1} named: {key: "licence" value: 1}}
  }
  volumes: {scratch_bytes: 1073741824 mount_path: "/tmp/x"}
}`

func TestJobs(t *testing.T) {
	want := new(sluicev1.JobSpec)
	require.NoError(t, prototext.Unmarshal([]byte(fullText), want))
	got, err := Jobs("f", []byte(full))
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Truef(t, proto.Equal(want, got[0]), "got %v", prototext.Format(got[0]))
}

func TestSeveralDocuments(t *testing.T) {
	got, err := Jobs("f", []byte("%YAML 1.2\n# a graph\n---\nname: a\n---\nname: b\ndepends_on: [{job: a}]\n---\n"))
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "a", got[1].DependsOn[0].Job)
}

func TestByteOrderMark(t *testing.T) {
	specs, err := Jobs("f", []byte("\uFEFFname: a\n"))
	require.NoError(t, err)
	require.Equal(t, "a", specs[0].GetName())
}

func TestMappings(t *testing.T) {
	got, err := Mappings("f", []byte("rules:\n- {user: eve, reject: true}\n- {group: ml, labels: {gpu: \"yes\"}, pool: \"root/{group}\"}\n"))
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.True(t, got[0].Rules[0].GetReject())
	require.Equal(t, "root/{group}", got[0].Rules[1].GetPool())
	require.Equal(t, map[string]string{"gpu": "yes"}, got[0].Rules[1].GetLabels())
}

func TestPools(t *testing.T) {
	got, err := Pools("f", []byte("path: root/batch\nresources: [{dimension: cpu_milli, reservation: 500, mode: static}]\n"))
	require.NoError(t, err)
	require.Equal(t, "root/batch", got[0].Path)
	require.Equal(t, sluicev1.PoolResource_STATIC, got[0].Resources[0].Mode)
}

// Amounts of a pool are given as those of a task, or as whole numbers in the unit of the dimension's own name.
func TestAmountsOfPools(t *testing.T) {
	read := func(resource string) (*sluicev1.PoolResource, error) {
		pools, err := Pools("f", []byte("path: root/a\nresources: [{"+resource+"}]\n"))
		if err != nil {
			return nil, err
		}
		return pools[0].Resources[0], nil
	}
	for text, want := range map[string]struct {
		dimension          string
		reservation, limit int64
		written            string
	}{
		"dimension: cpu, reservation: 2.5, limit: 4":                   {"cpu_milli", 2500, 4000, "cpu\n  reservation: 2500m\n  limit: 4\n"},
		"reservation: 500m, limit: '60', dimension: cpu":               {"cpu_milli", 500, 60_000, "cpu\n  reservation: 500m\n  limit: 60\n"},
		"dimension: cpu_milli, reservation: 500, limit: 60000":         {"cpu_milli", 500, 60_000, "cpu\n  reservation: 500m\n  limit: 60\n"},
		"dimension: memory, reservation: 4Gi, limit: 16G":              {"memory_bytes", 4 << 30, 16e9, "memory\n  reservation: 4Gi\n  limit: 16G\n"},
		"dimension: memory_bytes, reservation: 4Gi, limit: 4294967297": {"memory_bytes", 4 << 30, 1<<32 + 1, "memory\n  reservation: 4Gi\n  limit: 4294967297\n"},
		"dimension: disk, reservation: 1.5Ti, limit: 2Ti":              {"disk_bytes", 3 << 39, 2 << 40, "disk\n  reservation: 1536Gi\n  limit: 2Ti\n"},
		"dimension: gpu, reservation: 0.25, limit: 2":                  {"gpu_milli", 250, 2000, "gpu\n  reservation: 250m\n  limit: 2\n"},
		"dimension: network_per_second, reservation: 1Mi, limit: 10Mi": {"network_bytes_per_second", 1 << 20, 10 << 20, "network_per_second\n  reservation: 1Mi\n  limit: 10Mi\n"},
		"dimension: licence, reservation: 2, limit: 3":                 {"licence", 2, 3, "licence\n  reservation: 2\n  limit: 3\n"},
	} {
		got, err := read(text)
		require.NoError(t, err, text)
		require.Equal(t, []any{want.dimension, want.reservation, want.limit}, []any{got.GetDimension(), got.GetReservation(), got.GetLimit()}, text)
		file, err := Format(&sluicev1.PoolSpec{Resources: []*sluicev1.PoolResource{got}})
		require.NoError(t, err, text)
		require.Equal(t, "resources:\n- dimension: "+want.written, string(file), text)
	}
	for text, want := range map[string]string{
		"dimension: cpu_milli, reservation: 2.5":  `f:2:49: reservation: "2.5" is not a whole number of thousandths: with ` + "`dimension: cpu`" + ` it may be 2, 0.5 or 500m`,
		"dimension: gpu_milli, limit: 500m":       "with `dimension: gpu` it may be",
		"dimension: cpu, reservation: 4Gi":        `reservation: "4Gi" is not an amount such as 2, 0.5 or 500m`,
		"dimension: memory, limit: 4GB":           `limit: "4GB": unknown unit "GB"`,
		"dimension: licence, limit: 4Gi":          "limit: expected a whole number",
		"dimension: memory, reservation: ":        "f:2:45: has no value",
		"dimension: memory, reservation: [1]":     "reservation: expected an amount",
		"dimension: memory, share: 1Ki, limit: 1": "share: expected a whole number",
		"dimension: [memory], limit: 1Ki":         "dimension: expected a text",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\nf:2:45: has no value", "said twice")
	}
}

// What stands behind a separator that nothing stands before is read all the same, wherever that is, and its place is told.
func TestEmptyDocuments(t *testing.T) {
	empty := []string{"", "---\n", "---\n---\n", "\n---\n\n---\n", "# c\n---\n# c\n---\n# c\n---\n", "---\n...\n---\n", "---\n---\n...\n---\n---\n"}
	for _, before := range empty {
		for _, between := range empty[1:] {
			for _, after := range empty {
				text := before + "name: a\n" + between + "name: b\n" + after
				got, err := Jobs("f", []byte(text))
				require.NoError(t, err, "%q", text)
				require.Len(t, got, 2, "%q", text)
				require.Equal(t, "a", got[0].GetName(), "%q", text)
				require.Equal(t, "b", got[1].GetName(), "%q", text)
				require.Equal(t, 2, Documents([]byte(text)), "%q", text)
			}
		}
	}
	_, err := Jobs("f", []byte("---\n---\nname: a\n---\n---\nnam: b\n"))
	require.EqualError(t, err, `f:6:1: unknown key "nam": did you mean "name"?`)
}

func TestRefusals(t *testing.T) {
	task := func(s string) string { return "name: x\ntask:\n  resources: {" + s + "}\n" }
	for name, c := range map[string]struct{ in, want string }{
		"empty":            {"", "f: is empty"},
		"comment":          {"# nothing\n", "f: is empty"},
		"syntax":           {"name: [x\n", "f:1:7: "},
		"twice":            {"name: x\nname: y\n", "f:2:1: "},
		"unknown key":      {"nmae: x\n", `f:1:1: unknown key "nmae": did you mean "name"?`},
		"far key":          {"name: x\ngang: {zzzzzz: 1}\n", `f:2:8: unknown key "zzzzzz": the keys here are launch_timeout, minimum`},
		"raw unit":         {task("cpu_milli: 5"), `f:3:15: unknown key "cpu_milli": it is written as "cpu", with a unit in the value`},
		"number as text":   {"name: 5\n", "f:1:7: name: expected a text, found the number 5: put it in quotes"},
		"text as number":   {"instances: many\n", `f:1:12: instances: expected a whole number, found the text "many"`},
		"float as number":  {"instances: 1.5\n", "f:1:12: instances: expected a whole number, found the number 1.5"},
		"too many":         {"instances: 4294967296\n", "f:1:12: instances: 4294967296 is out of range: 0 to 4294967295"},
		"negative":         {"instances: -1\n", "f:1:12: instances: -1 is out of range: 0 to 4294967295"},
		"huge":             {"priority: 99999999999999999999\n", "f:1:11: priority: 99999999999999999999 is out of range: "},
		"huge in quotes":   {"priority: '99999999999999999999'\n", `f:1:11: priority: expected a whole number, found the text "9999`},
		"bool":             {"preemptible: yes\n", `f:1:14: preemptible: expected true or false, found the text "yes"`},
		"enum":             {"type: cron\n", `f:1:7: type: "cron" is none of batch, stateless, stateful, daemon`},
		"enum number":      {"type: 1\n", "f:1:7: type: expected a text, found the number 1: put it in quotes"},
		"duration":         {"kill_grace: 5\n", "f:1:13: kill_grace: expected a duration such as 10s, 1m30s or 2h, found the number 5"},
		"time":             {"limits: {deadline: tomorrow}\n", "f:1:20: limits"},
		"list":             {"depends_on: a\n", `f:1:13: depends_on: expected a list, found the text "a"`},
		"mapping":          {"task: run\n", `f:1:7: task: expected keys with values, found the text "run"`},
		"list by its key":  {"task: {processes: [{argv: sleep 1}]}\n", `f:1:27: argv: expected a list, found the text "sleep 1"`},
		"item by its key":  {"task: {processes: [{argv: [1]}]}\n", "f:1:28: argv: expected a text, found the number 1: put it in quotes"},
		"entry by its key": {"labels: {PORT: 80}\n", "f:1:16: PORT: expected a text, found the number 80: put it in quotes"},
		"in a list":        {"spread: [host]\n", `f:1:10: spread: expected keys with values, found the text "host"`},
		"no file of ours":  {strings.Repeat("word ", 1000), `f:1:1: JobSpec: expected keys with values, found the text "` + strings.Repeat("word ", 15) + `word…"`},
		"long key":         {strings.Repeat("k", 500) + ": 1\n", `f:1:1: unknown key "` + strings.Repeat("k", 79) + `…": the keys here are`},
		"long value":       {"type: " + strings.Repeat("v", 500) + "\n", `f:1:7: type: "` + strings.Repeat("v", 79) + `…" is none of`},
		"top":              {"- name: x\n", "f:1:1: JobSpec: expected keys with values, found a list"},
		"null":             {"name:\n", "f:1:7: has no value: give one or remove the key"},
		"null item":        {"groups: [null]\n", "f:1:10: has no value: give one or remove the key"},
		"choice":           {"task:\n  processes:\n    - shell: a\n      argv: [b]\n", `f:4:7: "shell" and "argv" exclude each other: give one`},
		"alias":            {"labels: &l {a: b}\n", "f:1:9: anchors and aliases are not supported"},
		"merge":            {"labels: {<<: {a: b}}\n", "f:1:10: merge keys are not supported: write the values out"},
		"tag":              {"name: !!str 5\n", "f:1:7: tags are not supported: write the plain value"},
		"octal":            {"instances: 010\n", "f:1:12: instances: 010 may be read as an octal number: leave the 0 at its beginning out"},
		"octal amount":     {task("cpu: 010"), "f:3:20: cpu: 010 may be read as an octal number"},
		"cpu unit":         {task("cpu: 1Mi"), `f:3:20: cpu: "1Mi" is not an amount such as 2, 0.5 or 500m`},
		"cpu too fine":     {task("cpu: 0.0001"), `f:3:20: cpu: "0.0001" is finer than a thousandth`},
		"cpu half milli":   {task("cpu: 1.5m"), `f:3:20: cpu: "1.5m" is finer than a thousandth`},
		"cpu exponent":     {task("cpu: 1e3"), "f:3:20: cpu: "},
		"cpu infinite":     {task("cpu: .inf"), "f:3:20: cpu: expected an amount, found the number .inf"},
		"memory unit":      {task("memory: 64mb"), `f:3:23: memory: "64mb": unknown unit "mb": use Ki, Mi, Gi, Ti, Pi or k, M, G, T, P`},
		"memory fraction":  {task("memory: 0.3"), `f:3:23: memory: "0.3" is not a whole number of bytes`},
		"memory range":     {task("memory: 9999999Pi"), `f:3:23: memory: "9999999Pi" is out of range`},
		"memory list":      {task("memory: [1]"), "f:3:23: memory: expected an amount, found a list"},
		"deep":             {"a: " + strings.Repeat("[", 200), "f: has more than 100 brackets open at once"},
		"latin":            {"name: a\nlabels: {von: M\u00fcller, n: M\xfcller}\n", "f:2:27: the byte 0xfc is not UTF-8: save the file in this encoding"},
		"wide":             {"\xff\xfen\x00a\x00", "f:1:1: the byte 0xff is not UTF-8"},
		"big":              {strings.Repeat("#", MaxBytes+1), "f: has more than 4194304 bytes"},
		"second document":  {"name: a\n---\nnam: b\n", `f:3:1: unknown key "nam": did you mean "name"?`},
		"several problems": {"nmae: x\ntype: cron\n", "did you mean \"name\"?\nf:2:7: type:"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Jobs("f", []byte(c.in))
			require.ErrorContains(t, err, strings.TrimSuffix(c.want, "limits"))
			require.Nil(t, got)
		})
	}
}

// Every unit is what it says, and an amount is written with the largest that leaves it whole.
func TestUnits(t *testing.T) {
	for units, step := range map[string]int64{"Ki Mi Gi Ti Pi": 1 << 10, "k M G T P": 1000} {
		size := int64(1)
		for _, unit := range strings.Fields(units) {
			size *= step
			got, err := ParseBytes("3" + unit)
			require.NoError(t, err)
			require.Equal(t, 3*size, got, unit)
			require.Equal(t, "3"+unit, formatBytes(3*size))
		}
	}
	for n, want := range map[int64]string{0: "0", 1: "1", 1001: "1001", 1024_000: "1000Ki", -2048: "-2Ki"} {
		require.Equal(t, want, formatBytes(n))
	}
	for n, want := range map[int64]string{0: "0", 1: "1m", 1000: "1", 1500: "1500m", -2000: "-2"} {
		require.Equal(t, want, formatMilli(n))
		got, err := ParseMilli(want)
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
}

// Constraints that lie deeper in each other than people write must not exhaust the stack.
func TestDepthByIndentation(t *testing.T) {
	var b strings.Builder
	b.WriteString("constraints:\n  - expression:\n")
	for i := range 3 * MaxDepth {
		fmt.Fprintf(&b, "%sall_of:\n%s-\n", strings.Repeat(" ", 6+2*i), strings.Repeat(" ", 7+2*i))
	}
	_, err := Jobs("f", []byte(b.String()))
	require.Error(t, err)
}

// Every field that a file can reach has to be of a kind that the decoder knows, under a key of its own, and a unit in
// a name has to be in the table.
func TestFormatCoversTheMessages(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	used := map[protoreflect.FullName]bool{}
	var visit func(md protoreflect.MessageDescriptor)
	field := func(t *testing.T, fd protoreflect.FieldDescriptor) {
		if isWellKnown(fd) {
			require.Contains(t, []protoreflect.Name{"Duration", "Timestamp"}, fd.Message().Name(), fd.FullName())
			return
		}
		switch fd.Kind() {
		case protoreflect.MessageKind:
			visit(fd.Message())
		case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.BoolKind, protoreflect.EnumKind,
			protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind:
		default:
			t.Errorf("%s: the decoder does not know kind %v", fd.FullName(), fd.Kind())
		}
	}
	visit = func(md protoreflect.MessageDescriptor) {
		if seen[md.FullName()] {
			return
		}
		seen[md.FullName()] = true
		require.Lenf(t, schemaOf(md).fields, md.Fields().Len(), "%s: two fields share a key", md.FullName())
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			name := string(fd.Name())
			_, listed := units[fd.FullName()]
			used[fd.FullName()] = true
			carries := name == "bytes" || strings.HasSuffix(name, "_bytes") || strings.HasSuffix(name, "_milli") ||
				strings.HasSuffix(name, "_bytes_per_second")
			require.Equalf(t, carries, listed, "%s: a unit in the name and the table of units have to agree", fd.FullName())
			if fd.IsMap() {
				require.Equal(t, protoreflect.StringKind, fd.MapKey().Kind())
				require.NotEqual(t, protoreflect.MessageKind, fd.MapValue().Kind())
				fd = fd.MapValue()
			}
			field(t, fd)
		}
	}
	visit(new(sluicev1.JobSpec).ProtoReflect().Descriptor())
	visit(new(sluicev1.PoolSpec).ProtoReflect().Descriptor())
	for name := range units {
		require.True(t, used[name], "%s: in the table of units, but in no message", name)
	}
}

// The page about the command line shows a file that can be read, and how every field with a unit is written.
func TestFormatIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/cli.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## Job files")
	require.True(t, found)
	_, example, _ := strings.Cut(section, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	jobs, err := Jobs("docs/cli.md", []byte(example))
	require.NoError(t, err)
	require.Equal(t, "hello", jobs[0].Name)
	for name, u := range units {
		require.Contains(t, section, "`"+string(name.Name())+"`")
		require.Contains(t, section, "`"+u.key+"`")
	}
	for _, d := range dimensions {
		require.Contains(t, section, "`"+d.name+"`")
		require.Contains(t, section, "`"+d.key+"`")
	}
}

func FuzzJobs(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte("name: a\n---\nname: &x b\n"))
	f.Add([]byte("? [a]\n: {b: !!int 1}\n<<: *x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		jobs, err := Jobs("f", data)
		require.Equal(t, err != nil, jobs == nil)
		if err != nil {
			require.NotContains(t, err.Error(), "%!")
			var p *Problem
			require.True(t, errors.As(err, &p))
		}
	})
}

// What a scheduler answers is no file; that is said once, and not of each of its keys.
func TestAnswersAreNoFiles(t *testing.T) {
	_, err := Jobs("a.yaml", []byte("name: a\nuid: 1\nspec:\n  type: JOB_TYPE_BATCH\nstate: JOB_STATE_RUNNING\n"))
	require.EqualError(t, err, `a.yaml:3:1: this is an answer of the scheduler, as "get -o yaml" prints it: `+
		`"job file" and "pool file" print files`)
	_, err = Pools("a.yaml", []byte("{spec: {path: root/a}, state: POOL_STATE_OPEN}"))
	require.ErrorContains(t, err, "this is an answer of the scheduler")
	_, err = Jobs("pod.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n"))
	require.ErrorContains(t, err, `pod.yaml:4:1: unknown key "spec": `)
	require.NotContains(t, err.Error(), "answer of the scheduler")
}

// What is written is read as what it was made from, whatever a message holds.
func TestFormat(t *testing.T) {
	jobs, err := Jobs("f", []byte(full))
	require.NoError(t, err)
	data, err := Format(jobs[0])
	require.NoError(t, err)
	for _, want := range []string{
		"name: train\ntype: stateless\n", "max_run_time: 2h\n", "kill_grace: 1m30s\n", "cpu: 1250m\n", "memory: 100\n",
		"shell: |\n      echo one\n      echo two\n", "size: 1536Mi\n", "gang: {}\n", "PORT: \"80\"\n",
	} {
		require.Contains(t, string(data), want)
	}
	rapid.Check(t, func(t *rapid.T) {
		spec := new(sluicev1.JobSpec)
		draw(t, spec.ProtoReflect(), 0)
		data, err := Format(spec) // which reads it
		require.NoError(t, err)
		again, err := Jobs("f", data)
		require.NoError(t, err)
		require.Truef(t, proto.Equal(spec, again[0]), "%s", data)
	})
}

// Texts that other readers of YAML would refuse, or take for something else, are quoted.
func TestTextsThatOthersRead(t *testing.T) {
	texts := []string{"?", "? a", ".nan", "-.Inf", "=", "<<", "12:30:45", "a\tb", "\x1b[1m", "\u2028"}
	data, err := Format(&sluicev1.JobSpec{Name: "a", Task: &sluicev1.TaskSpec{Processes: []*sluicev1.ProcessSpec{{
		Command: &sluicev1.ProcessSpec_Argv{Argv: &sluicev1.Argv{Args: texts}},
	}}}})
	require.NoError(t, err)
	for _, text := range texts {
		require.Contains(t, string(data), "- "+strconv.Quote(text)+"\n")
	}
}

// draw fills a message with anything that a file can hold.
func draw(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if one := fd.ContainingOneof(); one != nil && m.WhichOneof(one) != nil || depth > 5 || !rapid.Bool().Draw(t, string(fd.Name())) {
			continue
		}
		switch {
		case fd.IsMap():
			for _, k := range rapid.SliceOfN(rapid.StringMatching(`[!-;=-~]{1,8}`), 1, 3).Draw(t, "keys") {
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(k).MapKey(), drawn(t, fd.MapValue(), nil, depth))
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range rapid.IntRange(1, 3).Draw(t, "length") {
				list.Append(drawn(t, fd, list.NewElement, depth))
			}
		default:
			m.Set(fd, drawn(t, fd, func() protoreflect.Value { return m.NewField(fd) }, depth))
		}
	}
}

func drawn(t *rapid.T, fd protoreflect.FieldDescriptor, blank func() protoreflect.Value, depth int) protoreflect.Value {
	switch name := string(fd.Name()); fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, name))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(rapid.String().Draw(t, name)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(rapid.IntRange(1, fd.Enum().Values().Len()-1).Draw(t, name)).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, name))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, name))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, name))
	}
	v := blank()
	switch m := v.Message().Interface().(type) {
	case *durationpb.Duration:
		return protoreflect.ValueOfMessage(durationpb.New(time.Duration(rapid.Int64().Draw(t, "duration"))).ProtoReflect())
	case *timestamppb.Timestamp:
		m.Seconds, m.Nanos = rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int32Range(0, 999_999_999).Draw(t, "nanos")
	default:
		draw(t, v.Message(), depth+1)
	}
	return v
}
