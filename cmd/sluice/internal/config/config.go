// Package config collects the settings of the command line: flags before environment variables before a file before
// defaults. Every key has a default, unknown keys in a file are refused, and all problems come in one error.
package config

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cmd/sluice/internal/jobfile"
)

// Config is the effective settings. Settings in settings.go says what each key means.
type Config struct {
	Server    string
	Output    string
	Reconnect time.Duration
	TLS       TLS
	TokenFile string `mapstructure:"token_file"`
	Log       Log
	Scheduler Scheduler
	Dev       Dev
	Local     Local
	Mesos     Mesos
}

// TLS says how commands and host managers connect to the scheduler.
type TLS struct {
	CA, Cert, Key string
	ServerName    string `mapstructure:"server_name"`
}

// ServerTLS is the TLS of the scheduler.
type ServerTLS struct {
	Cert, Key string
	ClientCA  string `mapstructure:"client_ca"`
	CA        string // of the server's own certificate
	CRL       string
}

// Log says what is logged.
type Log struct{ Level, Format string }

// Scheduler is for the process that schedules.
type Scheduler struct {
	Listen           string
	HTTPListen       string `mapstructure:"http_listen"`
	Traces           string
	Advertise        string
	StateDir         string `mapstructure:"state_dir"`
	Member           string
	Peers            string        // joined by commas
	PeerListen       string        `mapstructure:"peer_listen"`
	ElectionTimeout  time.Duration `mapstructure:"election_timeout"`
	TLS              ServerTLS
	Insecure         bool
	Operators        string // joined by commas
	HostManagers     string `mapstructure:"host_managers"` // joined by commas
	AuditLog         string `mapstructure:"audit_log"`
	SecretKeyFile    string `mapstructure:"secret_key_file"`
	Rate             int
	Burst            int
	Streams          int
	CostModel        string `mapstructure:"cost_model"`
	Solver           string
	BatchWindow      time.Duration `mapstructure:"batch_window"`
	SolveBudget      int64         `mapstructure:"solve_budget"`
	UnreachableAfter time.Duration `mapstructure:"unreachable_after"`
	LostAfter        time.Duration `mapstructure:"lost_after"`
	LearnEvery       time.Duration `mapstructure:"learn_every"`
	ModelTimeout     time.Duration `mapstructure:"model_timeout"`
	KeepFinished     time.Duration `mapstructure:"keep_finished"`
	CheckpointEvery  uint64        `mapstructure:"checkpoint_every"`
	SlackWindow      time.Duration `mapstructure:"slack_window"`
	SlackMargin      int           `mapstructure:"slack_margin"`

	SpeculationInterval time.Duration `mapstructure:"speculation_interval"`
	SpeculationAfter    time.Duration `mapstructure:"speculation_after"`
	SlowTaskPercent     int           `mapstructure:"slow_task_percent"`
	SlowHostPercent     int           `mapstructure:"slow_host_percent"`
	MaxCopiesPercent    int           `mapstructure:"max_copies_percent"`

	MaxPreempted int           `mapstructure:"max_preempted"`
	Patience     time.Duration `mapstructure:"preemption_patience"`
}

// Dev is for everything in one process.
type Dev struct {
	StateDir string `mapstructure:"state_dir"`
	Driver   string
}

// Local is for the host manager of this machine.
type Local struct {
	Shard         string
	StateDir      string `mapstructure:"state_dir"`
	Hosts         int
	Racks         int
	Rack          string
	Zone          string
	Address       string
	Ports         string
	CPU           string
	Memory        string
	Disk          string
	Resources     string // joined by commas
	Attributes    string // joined by commas
	Cgroup        string
	LogLimit      string        `mapstructure:"log_limit"`
	UsageInterval time.Duration `mapstructure:"usage_interval"`
	SecretsDir    string        `mapstructure:"secrets_dir"`
	Retention     Retention
}

// Mesos is for the host manager of a Mesos cluster.
type Mesos struct {
	Shard           string
	StateDir        string `mapstructure:"state_dir"`
	Master          string
	Name            string
	User            string
	Roles           string // joined by commas
	Principal       string
	SecretFile      string        `mapstructure:"secret_file"`
	FailoverTimeout time.Duration `mapstructure:"failover_timeout"`
	Checkpoint      bool
	GPUs            bool
	Revocable       bool
	WebUIURL        string        `mapstructure:"webui_url"`
	RackAttribute   string        `mapstructure:"rack_attribute"`
	ZoneAttribute   string        `mapstructure:"zone_attribute"`
	GPUAttribute    string        `mapstructure:"gpu_model_attribute"`
	OfferHold       time.Duration `mapstructure:"offer_hold"`
	DeclineFor      time.Duration `mapstructure:"decline_for"`
	IdleAfter       time.Duration `mapstructure:"idle_after"`
	OfferWait       time.Duration `mapstructure:"offer_wait"`
	MaintenanceLead time.Duration `mapstructure:"maintenance_lead"`
	ReconcileEvery  time.Duration `mapstructure:"reconcile_every"`
	VolumeSize      string        `mapstructure:"volume_size"`
	PartitionAware  bool          `mapstructure:"partition_aware"`
	JSON            bool
	TLS             MesosTLS
}

// MesosTLS says how masters are connected to. All are files; CA or Cert makes it TLS, as Enabled does.
type MesosTLS struct {
	Enabled       bool
	CA, Cert, Key string
}

// drivers are the host managers that dev may have.
var drivers = []string{"local", "mesos"}

// Retention bounds what is kept of runs that have ended.
type Retention struct {
	Runs int
	Size string
	Age  time.Duration
}

// outputs are the forms that answers are printed in.
var outputs = []string{"table", "json", "yaml"}

// The bounds of scheduler.model_timeout: below, a busy machine would be taken for a broken model.
const (
	minModelTimeout = 100 * time.Millisecond
	maxModelTimeout = time.Hour
)

// The bounds of scheduler.election_timeout: below, a busy machine would be taken for a dead one.
const (
	minElection = 100 * time.Millisecond
	maxElection = time.Minute
)

// maxBatchWindow bounds scheduler.batch_window: nothing starts before it is over.
const maxBatchWindow = time.Minute

// Below these scheduler.speculation_interval and scheduler.slack_window would keep a processor busy with nothing.
const (
	minSpeculation = 100 * time.Millisecond
	minSlackWindow = time.Second
)

// Servers are the addresses of schedulers.
func (c *Config) Servers() []string { return addresses(c.Server) }

// addresses reads a list of addresses, joined by commas; none is none.
func addresses(s string) (all []string) {
	for part := range strings.SplitSeq(s, ",") {
		if s != "" {
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}

// Peer is one of the schedulers that stand by for each other.
type Peer struct{ Name, Address string }

// maxPeers bounds the members of a group: each record goes to all of them.
const maxPeers = 9

// ParsePeers reads scheduler.peers; none is none.
func ParsePeers(s string) (all []Peer, err error) {
	for name, address := range pairs(s) {
		switch {
		case address == "":
			return nil, fmt.Errorf("%q is no NAME=HOST:PORT, such as n1=10.0.0.1:7463", name)
		case !cluster.IsKey(name):
			return nil, fmt.Errorf("%q cannot be the name of a member: use letters, digits, '-', '_' and '.'", name)
		case slices.ContainsFunc(all, func(p Peer) bool { return p.Name == name || p.Address == address }):
			return nil, fmt.Errorf("%q: its name or its address is there twice", name+"="+address)
		}
		all = append(all, Peer{name, address})
	}
	if len(all) > maxPeers {
		return nil, fmt.Errorf("%d members are too many: 3 or 5 are usual, %d the most", len(all), maxPeers)
	}
	return all, nil
}

// problemOfPeers says what is wrong with scheduler.peers and scheduler.member together.
func (s Scheduler) problemOfPeers() error {
	peers, err := ParsePeers(s.Peers)
	if err != nil {
		return err
	}
	known := false
	for _, p := range peers {
		if err := reachable(p.Address, s.TLS.Cert != "", "scheduler.tls.cert"); err != nil {
			return err
		}
		if _, port, _ := net.SplitHostPort(p.Address); port == "0" {
			return fmt.Errorf("%q: the others have to know the port", p.Address)
		}
		known = known || p.Name == s.Member
	}
	switch {
	case (len(peers) == 0) != (s.Member == ""):
		return errors.New("scheduler.member and scheduler.peers belong together; set both or neither")
	case len(peers) > 0 && !known:
		return fmt.Errorf("scheduler.member is %q, which is none of them", s.Member)
	case s.PeerListen != "" && len(peers) == 0:
		return errors.New("scheduler.peer_listen is set, and there are none; set scheduler.peers and scheduler.member too")
	}
	return nil
}

// problems collects what is wrong with settings.
type problems []error

// check notes that the setting is wrong, if err says so.
func (p *problems) check(key string, err error) {
	if err != nil {
		*p = append(*p, fmt.Errorf("%s: %w", key, err))
	}
}

// validateCaller joins all that is wrong with what c says of the scheduler to call, which commands that call none do without.
func (c *Config) validateCaller() error {
	var p problems
	if c.Server == "" {
		p.check("server", reachable("", true, ""))
	}
	for _, server := range c.Servers() {
		p.check("server", reachable(server, c.TLS.CA != "", authority))
	}
	shown := "tls.cert"
	switch {
	case c.TLS.Cert == "" && c.TLS.Key != "":
		shown = "tls.key"
	case c.TLS.Cert == "" && c.TokenFile != "":
		shown = "token_file"
	}
	p.check(shown, c.TLS.problem(c.TokenFile))
	return errors.Join(p...)
}

// authority names the setting that makes calls use TLS.
const authority = "tls.ca (--ca, SLUICE_TLS_CA)"

// Validate joins all that is wrong with c into one error, besides validateCaller. What the parts of the system know better about
// their own settings they check themselves.
func (c *Config) Validate() error {
	var p problems
	p.check("output", oneOf(c.Output, outputs))
	if new(slog.LevelVar).UnmarshalText([]byte(c.Log.Level)) != nil { // which takes more than is documented
		p.check("log.level", oneOf(c.Log.Level, []string{"debug", "info", "warn", "error"}))
	}
	p.check("log.format", oneOf(c.Log.Format, []string{"text", "json"}))
	p.check("reconnect", positive(c.Reconnect))
	p.check("dev.state_dir", absolute(c.Dev.StateDir))
	p.check("dev.driver", oneOf(c.Dev.Driver, drivers))
	c.Scheduler.validate(&p)
	c.Local.validate(&p)
	c.Mesos.validate(&p)
	return errors.Join(p...)
}

func (s *Scheduler) validate(p *problems) {
	p.check("scheduler.listen", reachable(s.Listen, s.TLS.Cert != "", "scheduler.tls.cert"))
	p.check("scheduler.http_listen", reachable(s.HTTPListen, s.TLS.Cert != "", "scheduler.tls.cert"))
	for _, a := range addresses(s.Advertise) {
		p.check("scheduler.advertise", reachable(a, s.TLS.Cert != "", "scheduler.tls.cert"))
	}
	p.check("scheduler.peers", s.problemOfPeers())
	if l := s.PeerListen; l != "" {
		p.check("scheduler.peer_listen", reachable(l, s.TLS.Cert != "", "scheduler.tls.cert"))
	}
	if t := s.ElectionTimeout; t < minElection || t > maxElection {
		p.check("scheduler.election_timeout", fmt.Errorf("is %v: %v to %v", t, minElection, maxElection))
	}
	p.check("scheduler.traces", collector(s.Traces))
	p.check("scheduler.tls.cert", s.TLS.problem())
	if s.Insecure && s.TLS.Cert != "" {
		p.check("scheduler.insecure", errors.New("is true, and scheduler.tls.cert is set: leave one out"))
	}
	p.check("scheduler.rate", atLeast(1, int64(s.Rate)))
	p.check("scheduler.burst", atLeast(1, int64(s.Burst)))
	p.check("scheduler.streams", atLeast(1, int64(s.Streams)))
	if d := s.BatchWindow; d > maxBatchWindow {
		p.check("scheduler.batch_window", fmt.Errorf("is %v: at most %v, since nothing starts before it is over", d, maxBatchWindow))
	} else {
		p.check("scheduler.batch_window", positive(d))
	}
	p.check("scheduler.unreachable_after", positive(s.UnreachableAfter))
	p.check("scheduler.lost_after", positive(s.LostAfter))
	p.check("scheduler.solve_budget", atLeast(0, s.SolveBudget))
	p.check("scheduler.learn_every", positive(s.LearnEvery))
	if d := s.ModelTimeout; d != 0 && (d < minModelTimeout || d > maxModelTimeout) {
		p.check("scheduler.model_timeout", fmt.Errorf("is %v: %v to %v, or 0 to wait for ever", d, minModelTimeout, maxModelTimeout))
	}
	p.check("scheduler.keep_finished", atLeast(0, int64(s.KeepFinished)))
	p.check("scheduler.checkpoint_every", atLeast(1, int64(s.CheckpointEvery)))
	if d := s.SlackWindow; d != 0 && d < minSlackWindow {
		p.check("scheduler.slack_window", fmt.Errorf("is %v: %v or more, or 0 to lend nothing", d, minSlackWindow))
	}
	p.check("scheduler.max_preempted", atLeast(0, int64(s.MaxPreempted)))
	p.check("scheduler.preemption_patience", atLeast(0, int64(s.Patience)))
	p.check("scheduler.slack_margin", atLeast(0, int64(s.SlackMargin)))
	if d := s.SpeculationInterval; d != 0 && d < minSpeculation {
		p.check("scheduler.speculation_interval", fmt.Errorf("is %v: %v or more, or 0 to start no copies", d, minSpeculation))
	}
	p.check("scheduler.speculation_after", atLeast(0, int64(s.SpeculationAfter)))
	p.check("scheduler.slow_task_percent", within(s.SlowTaskPercent, 1, 99))
	p.check("scheduler.slow_host_percent", within(s.SlowHostPercent, 100, 10_000))
	p.check("scheduler.max_copies_percent", within(s.MaxCopiesPercent, 1, 100))
	p.check("scheduler.state_dir", absolute(s.StateDir))
}

func (l *Local) validate(p *problems) {
	p.check("local.state_dir", absolute(l.StateDir))
	if l.SecretsDir != "" {
		p.check("local.secrets_dir", absolute(l.SecretsDir))
	}
	// The drivers take their own defaults for what is zero, which here was asked for.
	p.check("local.hosts", atLeast(1, int64(l.Hosts)))
	p.check("local.racks", atLeast(1, int64(l.Racks)))
	if l.Retention.Runs == 0 {
		p.check("local.retention.runs", errors.New("is 0: 1 or more, or -1 to keep none"))
	}
	p.check("local.usage_interval", positive(l.UsageInterval))
	p.check("local.retention.age", positive(l.Retention.Age))
	p.check("local.address", hostName(l.Address))
	_, _, err := ParsePorts(l.Ports)
	p.check("local.ports", err)
	_, err = ParseResources(l.Resources)
	p.check("local.resources", err)
	_, err = ParseAttributes(l.Attributes)
	p.check("local.attributes", err)
	p.check("local.shard", shardName(l.Shard))
	p.check("local.cpu", amount(l.CPU, jobfile.ParseMilli, 0))
	p.check("local.memory", amount(l.Memory, jobfile.ParseBytes, 0))
	p.check("local.disk", amount(l.Disk, jobfile.ParseBytes, 0))
	p.check("local.log_limit", amount(l.LogLimit, jobfile.ParseBytes, 1))
	p.check("local.retention.size", amount(l.Retention.Size, jobfile.ParseBytes, 1))
}

func (m *Mesos) validate(p *problems) {
	p.check("mesos.state_dir", absolute(m.StateDir))
	p.check("mesos.shard", shardName(m.Shard))
	p.check("mesos.failover_timeout", positive(m.FailoverTimeout))
	p.check("mesos.offer_hold", positive(m.OfferHold))
	p.check("mesos.decline_for", positive(m.DeclineFor))
	p.check("mesos.idle_after", positive(m.IdleAfter))
	p.check("mesos.offer_wait", positive(m.OfferWait))
	p.check("mesos.maintenance_lead", positive(m.MaintenanceLead))
	p.check("mesos.reconcile_every", positive(m.ReconcileEvery))
	if (m.TLS.Cert == "") != (m.TLS.Key == "") {
		p.check("mesos.tls.cert", errors.New("a certificate and its key belong together; set mesos.tls.key too, or neither"))
	}
	p.check("mesos.volume_size", amount(m.VolumeSize, jobfile.ParseBytes, 1))
}

// problem says what is missing. A token is shown over TLS only.
func (t TLS) problem(tokenFile string) error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return errors.New("a certificate and its key belong together; set both tls.cert (--cert, SLUICE_TLS_CERT) and tls.key (--key, SLUICE_TLS_KEY), or neither")
	case t.CA == "" && (t.Cert != "" || tokenFile != ""):
		return errors.New("a certificate or a token is shown over TLS only; set " + authority + " too")
	}
	return nil
}

func (t ServerTLS) problem() error {
	if all := t.Cert != "" && t.Key != "" && t.ClientCA != ""; all || t == (ServerTLS{}) {
		return nil
	}
	return errors.New("scheduler.tls.cert, scheduler.tls.key and scheduler.tls.client_ca belong together; set all of them or none")
}

// reachable refuses addresses that others could reach or listen to, if nothing is encrypted.
func reachable(address string, encrypted bool, setting string) error {
	if strings.Contains(address, "://") {
		write := "an address such as 127.0.0.1:7461"
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" && u.Port() != "" {
			write = u.Host
		}
		return fmt.Errorf("%q is a URL, and has to be HOST:PORT: write %s", address, write)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address such as 127.0.0.1:7461", address)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: the port has to be a number from 0 to 65535", address)
	}
	if ip := net.ParseIP(host); !encrypted && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not on this machine; without TLS only loopback addresses such as 127.0.0.1 are allowed: set %s", address, setting)
	}
	return nil
}

// collector refuses what is no address of a collector of traces. None is one.
func collector(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.Port() != "" && strings.TrimSuffix(s, "/") == u.Scheme+"://"+u.Host {
		if _, err := net.LookupPort("tcp", u.Port()); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is not the address of a collector, which takes OTLP over gRPC, such as http://127.0.0.1:4317, or https://HOST:PORT with TLS", s)
}

// hostName refuses what is neither an IP address nor a name of DNS.
func hostName(s string) error {
	if net.ParseIP(s) == nil && (s == "" || len(s) > 253 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})) {
		return fmt.Errorf("%q is no IP address, and no name such as node-1.example.org", s)
	}
	return nil
}

// ParsePorts reads a range such as 20000-29999.
func ParsePorts(s string) (first, last uint16, err error) {
	from, to, _ := strings.Cut(s, "-")
	a, errA := strconv.ParseUint(from, 10, 16)
	b, errB := strconv.ParseUint(to, 10, 16)
	if errA != nil || errB != nil || a == 0 || a > b {
		return 0, 0, fmt.Errorf("%q is no range of 1 to 65535, such as 20000-29999", s)
	}
	return uint16(a), uint16(b), nil
}

// ParseResources reads named resources of a host, such as licence=2,fpga=1.
func ParseResources(s string) (all []cluster.Amount, err error) {
	for name, value := range pairs(s) {
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case !cluster.IsKey(name):
			return nil, fmt.Errorf("%q is no name of a resource with an amount in whole units, such as licence=2", name+"="+value)
		case cluster.IsDimension(name), cluster.DimensionCalled(name) != "", name == "network_per_second", name == "ports": // as job files call them, too
			return nil, fmt.Errorf("%q has a setting of its own, or comes from the machine", name)
		case err != nil || n < 0 || n > cluster.MaxAmount:
			return nil, fmt.Errorf("%q is no amount of %s: 0 to %d, in whole units", value, name, int64(cluster.MaxAmount))
		case slices.ContainsFunc(all, func(a cluster.Amount) bool { return a.Name == name }):
			return nil, fmt.Errorf("%q is there twice", name)
		}
		all = append(all, cluster.Amount{Name: name, Value: n})
	}
	return all, nil
}

// ParseAttributes reads attributes of a host, such as disk=ssd,sluice/exclusive=lab. A key may have several values.
func ParseAttributes(s string) (all []cluster.KeyValue, err error) {
	for key, value := range pairs(s) {
		switch a := (cluster.KeyValue{Key: key, Value: value}); {
		case !cluster.IsKey(key) || value == "" || len(value) > maxValue || strings.ContainsFunc(value, unicode.IsControl):
			return nil, fmt.Errorf("%q is no attribute with a value, such as disk=ssd", key+"="+value)
		case slices.Contains(hostLabels, key):
			return nil, fmt.Errorf("%q is said of every host by itself", key)
		case slices.Contains(all, a):
			return nil, fmt.Errorf("%q is there twice", key+"="+value)
		default:
			all = append(all, a)
		}
	}
	return all, nil
}

// maxValue is how many bytes the value of an attribute has at most.
const maxValue = 255

// hostLabels are what a local host manager says of its hosts in any case, and what hosts have besides attributes.
var hostLabels = []string{cluster.LabelHostname, cluster.LabelRack, cluster.LabelZone, "arch", "local", "os"}

// pairs goes through KEY=VALUE,KEY=VALUE...; of what has no = the value is empty.
func pairs(s string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for part := range strings.SplitSeq(s, ",") {
			if key, value, _ := strings.Cut(strings.TrimSpace(part), "="); s != "" && !yield(key, value) {
				return
			}
		}
	}
}

func oneOf(v string, all []string) error {
	if slices.Contains(all, v) {
		return nil
	}
	return fmt.Errorf("%q is none of %s", v, strings.Join(all, ", "))
}

func positive(d time.Duration) error {
	if d > 0 {
		return nil
	}
	return fmt.Errorf("%v has to be more than 0s", d)
}

func atLeast(least, n int64) error {
	if n >= least {
		return nil
	}
	return fmt.Errorf("is too small: %d or more", least)
}

// amount refuses what is none, or less than the least.
func amount(text string, parse func(string) (int64, error), least int64) error {
	n, err := parse(text)
	if err != nil {
		return err
	}
	return atLeast(least, n)
}

func within(n, least, most int) error {
	if n >= least && n <= most {
		return nil
	}
	return fmt.Errorf("is %d, and has to be %d to %d", n, least, most)
}

func absolute(dir string) error {
	if filepath.IsAbs(dir) {
		return nil
	}
	return fmt.Errorf("%q is not an absolute path", dir)
}

func shardName(s string) error {
	if s == "" || len(s) > 63 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) {
		return fmt.Errorf("%q has to be 1 to 63 characters of a-z, 0-9 and '-'", s)
	}
	return nil
}
