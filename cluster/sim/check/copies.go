package check

import (
	"maps"
	"slices"

	"github.com/sluice-scheduler/sluice/cluster"
)

// all yields the tasks of a job and their copies, in the order of keys.
func (j *job) all(yield func(cluster.TaskKey, *task) bool) {
	for i := range j.tasks {
		if !yield(cluster.MakeTaskKey(j.uid, uint32(i)), &j.tasks[i]) {
			return
		}
	}
	for _, i := range slices.Sorted(maps.Keys(j.copies)) {
		if !yield(cluster.MakeTaskKey(j.uid, i).Copy(), j.copies[i]) {
			return
		}
	}
}

// addCopy takes in a copy of a task, which has to run and have none.
func (c *Checker) addCopy(e *cluster.CopyAdded) {
	j, t := c.jobs[e.Task.Job()], c.task(e.Task)
	switch {
	case t == nil || t.state != running || t.run != e.Run:
		c.report(Life, "a copy of run %d of task %v is added, which does not run", e.Run, e.Task)
		return
	case j.spec.Speculation == nil || j.stopping:
		c.report(Once, "a copy of task %v is added, which must not run twice", e.Task)
		return
	}
	k := e.Task.Copy()
	if old := c.task(k); old != nil && !old.gone {
		c.report(Once, "task %v has two copies", e.Task)
		return
	}
	if j.copies == nil {
		j.copies = map[uint32]*task{}
	}
	next := &task{state: ended, again: true, since: c.at, off: t.host, spec: t.spec}
	if old := j.copies[e.Task.Instance()]; old != nil {
		next.run = old.run
	}
	j.copies[e.Task.Instance()] = next
	c.enter(k, next, waiting)
}

// winCopy takes in that a copy stands for its task: nothing may have come of that before, and it does not run again.
func (c *Checker) winCopy(k cluster.TaskKey) {
	t, copied := c.task(k.Original()), c.task(k)
	switch {
	case t == nil || copied == nil || copied.gone || copied.state != ended || !copied.succeeded:
		c.report(Life, "the copy %v wins and has not succeeded", k)
		return
	case t.succeeded || t.won || t.gone:
		c.report(Once, "the copy %v wins, and its task has succeeded already or is gone", k)
		return
	}
	copied.gone, t.won = true, true
	c.end(k.Original(), t)
}
