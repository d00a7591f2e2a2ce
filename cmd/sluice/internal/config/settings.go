package config

import (
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/sluice-scheduler/sluice/costmodels/models"
	"github.com/sluice-scheduler/sluice/solver/registry"
)

// Setting is one key with its default. Flag is the name of its command-line flag, where it has one.
type Setting struct {
	Key     string
	Default any
	Flag    string
	Short   string
	Usage   string
}

// Settings lists every key, in the order in which they are printed.
func Settings() []Setting {
	state := stateHome()
	return []Setting{
		{"server", "127.0.0.1:7461", "server", "", "HOST:PORT of the scheduler; where several stand by for each other, of all of them, joined by commas"},
		{"output", "table", "output", "o", "table, json or yaml"},
		{"reconnect", 5 * time.Minute, "reconnect", "", "how long to try again when the scheduler goes away in the middle"},
		{"tls.ca", "", "ca", "", "file with the authority of the scheduler's certificate; makes it TLS"},
		{"tls.cert", "", "cert", "", "file with the client certificate to show"},
		{"tls.key", "", "key", "", "file with the key of the certificate"},
		{"tls.server_name", "", "", "", "name in the scheduler's certificate, where it is not that of the address"},
		{"token_file", "", "token-file", "", "file with the token to show, in place of a certificate"},
		{"log.level", "info", "log-level", "", "debug, info, warn or error"},
		{"log.format", "text", "log-format", "", "of the log: text, or json with an object in each line"},

		{"scheduler.listen", "127.0.0.1:7461", "listen", "", "address for the API; port 0 takes a free one"},
		{"scheduler.http_listen", "127.0.0.1:7462", "http-listen", "", "address for the console, /metrics and /debug/pprof; port 0 takes a free one"},
		{"scheduler.traces", "", "traces", "", "OTLP/gRPC endpoint for traces, such as http://127.0.0.1:4317; empty: nothing is traced"},
		{"scheduler.advertise", "", "", "", "HOST:PORT at which tasks reach the API, of all members joined by commas; empty: scheduler.listen, by a name of the certificate"},
		{"scheduler.state_dir", filepath.Join(state, "scheduler"), "state-dir", "", "folder of the journal"},
		{"scheduler.member", "", "", "", "name of this scheduler among those that stand by for each other; empty: it is alone"},
		{"scheduler.peers", "", "", "", "NAME=HOST:PORT,NAME=HOST:PORT... of all of them, the same on each: where they listen to each other"},
		{"scheduler.peer_listen", "", "", "", "address to listen at for the others; empty: that in scheduler.peers"},
		{"scheduler.election_timeout", time.Second, "", "", "how long the one that leads may be silent before another one does"},
		{"scheduler.tls.cert", "", "", "", "file with the scheduler's certificate; makes it TLS, and asks who calls"},
		{"scheduler.tls.key", "", "", "", "file with the key of the certificate"},
		{"scheduler.tls.client_ca", "", "", "", "file with the authorities of client certificates"},
		{"scheduler.tls.ca", "", "", "", "file with the authority of the scheduler's certificate, for tasks that call it; empty: that of client_ca"},
		{"scheduler.tls.crl", "", "", "", "file with the list of revoked client certificates; empty: none is"},
		{"scheduler.insecure", false, "insecure", "", "serve this machine without TLS, and let everybody on it do everything"},
		{"scheduler.operators", "group:operators", "", "", "who holds the role operator: user:NAME and group:NAME, joined by commas"},
		{"scheduler.host_managers", "group:host-managers", "", "", "who holds the role host-manager"},
		{"scheduler.audit_log", "", "", "", "file that says who did what; empty: audit.log in the state folder"},
		{"scheduler.secret_key_file", "", "", "", "file with the keys that secrets are sealed with, or env:NAME; empty: jobs have none"},
		{"scheduler.rate", 1000, "", "", "calls a second of one user"},
		{"scheduler.burst", 2000, "", "", "calls of one user at once"},
		{"scheduler.streams", 256, "", "", "watches and logs that one user has open"},
		{"scheduler.cost_model", models.Default, "cost-model", "", "what makes one place better than another"},
		{"scheduler.solver", registry.Default, "solver", "", "algorithm for the min-cost flow"},
		{"scheduler.batch_window", 2 * time.Millisecond, "", "", "how long a cycle waits for more changes after the first, at most 1m"},
		{"scheduler.solve_budget", 0, "", "", "most work of one solve, in the solver's unit; 0 is no limit"},
		{"scheduler.unreachable_after", 10 * time.Second, "", "", "a shard may be away for this long before its hosts count as unreachable"},
		{"scheduler.lost_after", 5 * time.Minute, "", "", "a host may be unreachable for this long before its tasks run elsewhere"},
		{"scheduler.keep_finished", time.Duration(0), "", "", "how long jobs stay listed after their end that do not say it themselves; 0 is for ever"},
		{"scheduler.learn_every", time.Minute, "", "", "how often the cost model is told what was learned from runs"},
		{"scheduler.model_timeout", 10 * time.Second, "", "", "how long one call of a cost model may take before another model plans; 0 waits for ever"},
		{"scheduler.checkpoint_every", 50_000, "", "", "records of the journal between two checkpoints; a quarter of the tasks, jobs and hosts where that is more"},
		{"scheduler.slack_window", 5 * time.Minute, "", "", "how long a peak of what a task uses counts for the room of revocable tasks, 1s or more and not less than local.usage_interval of the host managers; 0 lends nothing"},
		{"scheduler.slack_margin", 20, "", "", "what is kept beside what tasks are believed to use, in percent of that"},
		{"scheduler.max_preempted", 1000, "", "", "tasks that one cycle may ask to leave for others; jobs and pools may bound it further"},
		{"scheduler.preemption_patience", 15 * time.Second, "", "", "how long a claim beyond its pool's reservation waits while enough comes free by itself; 0 takes at once"},

		{"scheduler.speculation_interval", 5 * time.Second, "", "", "how often to look for tasks that lag behind, of jobs whose tasks may have copies, 100ms or more; 0 starts none"},
		{"scheduler.speculation_after", time.Minute, "", "", "how long a task runs before it may be found to lag behind"},
		{"scheduler.slow_task_percent", 25, "", "", "tasks lag behind that will take longer than all but so many in a hundred"},
		{"scheduler.slow_host_percent", 150, "", "", "no copy goes to hosts where runs take longer than this, in percent of what was expected"},
		{"scheduler.max_copies_percent", 10, "", "", "most copies of a job at once, in percent of its instances, where the job does not say"},

		{"dev.state_dir", filepath.Join(state, "dev"), "state-dir", "", "folder of the journal and of the tasks"},
		{"dev.driver", "local", "driver", "", "where tasks run: local (processes of this machine) or mesos"},

		{"local.shard", "local", "shard", "", "name of this shard; its hosts are SHARD/h0, SHARD/h1, ..."},
		{"local.state_dir", filepath.Join(state, "hostmgr-local"), "state-dir", "", "folder of the tasks"},
		{"local.hosts", 8, "hosts", "", "number of virtual hosts"},
		{"local.racks", 2, "racks", "", "number of racks that they are dealt to"},
		{"local.rack", "r", "rack", "", "what the names of the racks begin with, before their numbers; host managers on several machines need names of their own"},
		{"local.zone", "local", "zone", "", "zone of the hosts"},
		{"local.address", "127.0.0.1", "address", "", "IP address or name at which tasks are reached, from other machines too where they have to be"},
		{"local.ports", "20000-29999", "ports", "", "ports for tasks, divided among the hosts; host managers of one machine need ranges of their own"},
		{"local.cpu", "0", "host-cpu", "", "CPU of each virtual host, such as 2 or 500m; 0 divides this machine"},
		{"local.memory", "0", "host-memory", "", "memory of each virtual host, such as 4Gi; 0 divides this machine"},
		{"local.disk", "0", "host-disk", "", "disk of each virtual host, such as 10Gi; 0 divides this machine"},
		{"local.resources", "", "resources", "", "named resources of each virtual host, NAME=AMOUNT,NAME=AMOUNT..., such as licence=2"},
		{"local.attributes", "", "attributes", "", "attributes of all virtual hosts, KEY=VALUE,KEY=VALUE..., such as disk=ssd,sluice/exclusive=lab"},
		{"local.cgroup", "", "cgroup", "", "cgroup v2 folder for the limits of tasks; empty looks for one"},
		{"local.log_limit", "8Mi", "", "", "what is kept of each output of a run, where the job does not say"},
		{"local.usage_interval", 5 * time.Second, "", "", "time between two measurements of what tasks use"},
		{"local.secrets_dir", "", "", "", "folder in memory for secrets of tasks; empty looks for one"},
		{"local.retention.runs", 1000, "", "", "ended runs that are kept for their output; -1 keeps none"},
		{"local.retention.size", "1Gi", "", "", "bytes that ended runs may take; of one that takes more by itself its output is kept"},
		{"local.retention.age", 24 * time.Hour, "", "", "how long ended runs are kept"},

		{"mesos.shard", "mesos", "shard", "", "name of this shard; its hosts are SHARD/AGENT"},
		{"mesos.state_dir", filepath.Join(state, "hostmgr-mesos"), "state-dir", "", "folder of the framework's id and the runs"},
		{"mesos.master", "127.0.0.1:5050", "master", "", "HOST:PORT,HOST:PORT... of masters, or zk://HOST:PORT,HOST:PORT.../mesos"},
		{"mesos.name", "sluice", "framework-name", "", "name of the framework in Mesos"},
		{"mesos.user", "", "framework-user", "", "user of tasks that name none; empty: the user of this process"},
		{"mesos.roles", "*", "roles", "", "roles of the framework, joined by commas"},
		{"mesos.principal", "", "principal", "", "principal that the framework authenticates as; empty: none"},
		{"mesos.secret_file", "", "secret-file", "", "file with the secret of the principal"},
		{"mesos.failover_timeout", 7 * 24 * time.Hour, "failover-timeout", "", "how long Mesos keeps the tasks while no host manager is connected"},
		{"mesos.checkpoint", true, "", "", "let tasks survive a restart of their agent's process"},
		{"mesos.gpus", false, "gpus", "", "true: take offers of hosts with GPUs"},
		{"mesos.revocable", false, "revocable", "", "true: take offers of what Mesos may take back at any time, for revocable jobs"},
		{"mesos.webui_url", "", "", "", "address that Mesos shows for the framework"},
		{"mesos.rack_attribute", "rack", "rack-attribute", "", "attribute of agents that holds their rack"},
		{"mesos.zone_attribute", "zone", "zone-attribute", "", "attribute of agents that holds their zone; without it, that of the fault domain"},
		{"mesos.gpu_model_attribute", "gpu_model", "", "", "attribute of agents that holds the model of their GPUs"},
		{"mesos.offer_hold", 5 * time.Minute, "", "", "how long an unused offer is held"},
		{"mesos.decline_for", 5 * time.Minute, "", "", "for how long others may have what was held in vain"},
		{"mesos.idle_after", 15 * time.Minute, "", "", "after how long without a launch offers are suppressed"},
		{"mesos.offer_wait", 5 * time.Second, "", "", "how long a launch waits for resources to be offered again"},
		{"mesos.maintenance_lead", 30 * time.Minute, "", "", "how long before planned maintenance a host gets no more tasks"},
		{"mesos.reconcile_every", 10 * time.Minute, "", "", "time between two comparisons of all tasks with Mesos"},
		{"mesos.volume_size", "1Gi", "", "", "size of a persistent volume that is made for a task"},
		{"mesos.partition_aware", true, "", "", "false: tasks on agents that are out of reach are lost at once"},
		{"mesos.json", false, "", "", "true: speak JSON with the masters in place of protobuf, to watch the traffic"},
		{"mesos.tls.enabled", false, "", "", "true: connect to masters over TLS, with the system's authorities"},
		{"mesos.tls.ca", "", "tls-ca", "", "file with the authorities of the masters' certificates; makes it TLS"},
		{"mesos.tls.cert", "", "tls-cert", "", "file with this framework's certificate"},
		{"mesos.tls.key", "", "tls-key", "", "file with the key of the certificate"},
	}
}

// stateHome returns the folder below which state is kept: sluice in XDG_STATE_HOME or, without it, in ~/.local/state. Services of the
// system are started without HOME: their user's home is asked for then. A folder for temporary files would not do, which is emptied at
// a boot and where others may have made it.
func stateHome() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sluice")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
		if u, err := user.Current(); err == nil {
			home = u.HomeDir
		}
	}
	return filepath.Join(home, ".local", "state", "sluice")
}
