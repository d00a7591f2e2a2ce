package mesos

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/fxamacker/cbor/v2"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/cluster/store"
	"github.com/sluice-scheduler/sluice/hostmgr"
)

// folder keeps what must survive the driver: the framework's id, the agents' names, and the runs. What is written is on
// disk when the call returns; concurrent writers share a sync.
//
//	framework     the framework's id
//	agent/ID      an agentRecord
//	run/ID        a runRecord
type folder struct{ *store.Store }

// kind is what the folder says it is.
var kind = store.Kind{
	Magic: "sluice-mesos", Version: 1, Oldest: 1,
	Remedy: "move the folder away: a new framework begins, and Mesos ends the tasks of the one before when that has been away for too long",
}

const (
	frameworkKey = "framework"
	agentPrefix  = "agent/"
	runPrefix    = "run/"
)

// agentRecord is what is known of an agent, so that the hosts of running tasks have their names after a restart.
type agentRecord struct {
	ID      string
	Serial  uint64 // counts the agents as they come; of two with one name the later has succeeded the other
	Name    string // of the host, "" if nothing of it was offered yet
	Port    int32  // of the agent's process, 0 where it was not told
	Path    string // of the agent there, "" where it was not told
	Machine cluster.Machine
}

// runRecord is a run that has been promised to start, or has ended and is not released.
type runRecord struct {
	Run         cluster.RunID
	Host, Agent string
	Fingerprint []byte // of the launch
	Resources   cluster.Resources
	Role        string // whose offers were accepted, "" before
	Revocable   bool   // the resources are such that may be taken back
	Ports       []uint16
	Volumes     []string // persistent ones, by name
	Members     []string // names of the processes, one Mesos task each; empty where there is one
	Main        []bool   // which of them are main
	Checked     []bool   // which of them have checks that say whether they are fit to serve
	Found       []string // ids of its Mesos tasks, as they were seen, if Mesos knew it and we did not
	At          cluster.Time
	Killed      bool
	Grace       time.Duration  // of the kill, or before one of what the task asked for
	Ended       []ending       // of members that have ended
	Status      hostmgr.Status // from RUNNING on; At is 0 before
}

// openFolder opens the state folder, which belongs to one driver at a time.
func openFolder(dir string, warn func(string)) (*folder, error) {
	s, err := store.Open(dir, kind, store.Options{Warn: warn})
	if err != nil {
		return nil, fmt.Errorf("mesos: the state folder: %w", err)
	}
	return &folder{s}, nil
}

func (f *folder) get(key string) (value string, err error) {
	err = f.View(func(txn *badger.Txn) error {
		item, err := txn.Get([]byte(key))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return item.Value(func(v []byte) error { value = string(v); return nil })
	})
	if err != nil {
		return "", fmt.Errorf("mesos: read the state folder: %w", err)
	}
	return value, nil
}

func (f *folder) put(key string, value []byte) error {
	return f.change(func(txn *badger.Txn) error { return txn.Set([]byte(key), value) })
}

// change makes changes durable, all or none. On a disk that is nearly full it fails with ErrRefused, and changes nothing for certain.
func (f *folder) change(fn func(txn *badger.Txn) error) error {
	if err := f.CheckFree(); err != nil {
		return fmt.Errorf("%w: mesos: the state folder: %w", hostmgr.ErrRefused, err)
	}
	if err := f.Update(fn); err != nil {
		return fmt.Errorf("mesos: write to the state folder: %w", err)
	}
	return nil
}

func (f *folder) framework() (string, error)   { return f.get(frameworkKey) }
func (f *folder) setFramework(id string) error { return f.put(frameworkKey, []byte(id)) }

// putRun writes a run, together with its agent if that is not nil.
func (f *folder) putRun(r *runRecord, a *agentRecord) error {
	return f.change(func(txn *badger.Txn) error {
		err := setRecord(txn, runPrefix+r.Run.String(), r)
		if err == nil && a != nil {
			err = setRecord(txn, agentPrefix+a.ID, *a)
		}
		return err
	})
}

func setRecord(txn *badger.Txn, key string, record any) error {
	value, err := cbor.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	return txn.Set([]byte(key), value)
}

// putAll writes records, and drops those that are nil, in as few transactions as hold them.
func putAll[T any](f *folder, prefix string, records map[string]*T) error {
	if len(records) == 0 {
		return nil
	}
	if err := f.CheckFree(); err != nil {
		return fmt.Errorf("mesos: write to the state folder: %w", err)
	}
	batch := f.NewWriteBatch()
	defer batch.Cancel()
	for _, name := range slices.Sorted(maps.Keys(records)) {
		var err error
		if r := records[name]; r == nil {
			err = batch.Delete([]byte(prefix + name))
		} else if value, encodeErr := cbor.Marshal(r); encodeErr != nil {
			err = encodeErr
		} else {
			err = batch.Set([]byte(prefix+name), value)
		}
		if err != nil {
			return fmt.Errorf("mesos: write to the state folder: %w", err)
		}
	}
	return flush(batch)
}

func flush(batch *badger.WriteBatch) error {
	if err := batch.Flush(); err != nil {
		return fmt.Errorf("mesos: write to the state folder: %w", err)
	}
	return nil
}

// decoding reads records. Attributes of agents and messages of tasks may hold any bytes, and are written as they are.
var decoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}()

// load reads all records.
func (f *folder) load() (agents []agentRecord, runs []*runRecord, err error) {
	err = f.each(agentPrefix, func(value []byte) error {
		var a agentRecord
		agents = append(agents, a)
		return decoding.Unmarshal(value, &agents[len(agents)-1])
	})
	if err == nil {
		err = f.each(runPrefix, func(value []byte) error {
			r := new(runRecord)
			runs = append(runs, r)
			return decoding.Unmarshal(value, r)
		})
	}
	return agents, runs, err
}

func (f *folder) each(prefix string, fn func(value []byte) error) error {
	err := f.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte(prefix), PrefetchValues: true, PrefetchSize: 100})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := it.Item().Value(fn); err != nil {
				return fmt.Errorf("record %s: %w", it.Item().Key(), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mesos: read the state folder: %w", err)
	}
	return nil
}
