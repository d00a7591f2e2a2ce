package dimacs

import (
	"io"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Stream reads a problem and after it batches of changes, each ended by a line
// "c EOI" or the end of the input: what cluster schedulers send to a solver that
// keeps its state (Firmament, OSDI 2016, and its solver Flowlessly):
//
//	n ID SUPPLY [TYPE]                          give a node another supply, or add
//	                                            it if no node has the id
//	a TAIL HEAD LOWER UPPER COST [TYPE]         add an arc
//	x TAIL HEAD LOWER UPPER COST [TYPE [OLD]]   change an arc, or add it if there
//	                                            is none; bounds 0 0 remove it, if
//	                                            it is there
//	r ID                                        remove a node with its arcs
//	d SUPPLY POTENTIAL ARCS [TYPE]              add a node, with the a lines that
//	                                            follow; 0 stands for it in them
//
// A node that d adds gets the lowest id above all that ever were; one that n adds
// may have that of a node that was removed, or leave some out. With a node that
// is removed or added, the demand of the sink, the one node of negative supply or
// else the last that had one, falls or rises by its supply. OLD is the former
// cost, by which x chooses among parallel arcs; where there are arcs and none has
// it, or several of unlike bounds, the line is refused. Types and the potential are hints, read and not used.
// In a stream the n and a lines of the problem may carry a type, too.
//
// Call Next, then Apply, until Next returns [io.EOF]. After another error the
// stream is over and its network may be half changed.
type Stream struct {
	lines   *lines
	problem reader
	batch   []change
	net     *flowgraph.Network
	nodes   []flowgraph.NodeID // by id − 1; NoNode where none lives
	ids     []int64            // by NodeID
	named   int64              // how many nodes there ever were, which bounds the ids of others
	added   flowgraph.NodeID   // by the last d line
	sink    flowgraph.NodeID   // the last that demanded and does not now, or NoNode
	alone   bool               // no line "c EOI" has been read

	demands, demandSum int64 // how many nodes have a negative supply, and the sum of their NodeIDs: the sink, if it is one
}

// change is one line of a batch.
type change struct {
	line    int
	kind    byte
	arc     [2]int64 // ids of tail and head; n and r have the first only
	lower   int64
	upper   int64
	cost    int64
	old     int64
	hasOld  bool
	supply  int64
	arcsToo int64
}

// NewStream begins to read r, plain or gzip.
func NewStream(r io.Reader) (*Stream, error) {
	s := &Stream{added: flowgraph.NoNode, sink: flowgraph.NoNode, alone: true}
	return s, s.Continue(r)
}

// Continue makes r the next part of the stream, after [io.EOF] of what was
// before.
func (s *Stream) Continue(r io.Reader) error {
	var err error
	s.lines, err = newLines(r)
	s.problem.lines = s.lines
	return err
}

// Network returns the network, which is nil before the first Apply.
func (s *Stream) Network() *flowgraph.Network { return s.net }

// Alone tells whether all that was read is a problem that no line "c EOI" ends.
func (s *Stream) Alone() bool { return s.alone }

// Next reads the problem or the next batch. It returns [io.EOF] when nothing is
// left; other errors wrap [ErrFormat] unless reading itself failed.
func (s *Stream) Next() error {
	s.batch = s.batch[:0]
	for s.lines.next() {
		if f := s.lines.fields; len(f) == 2 && string(f[0]) == "c" && string(f[1]) == "EOI" {
			s.alone = false
			return s.complete()
		}
		if err := s.line(); err != nil {
			return err
		}
	}
	if err := s.lines.err(); err != nil {
		return err
	}
	if s.net != nil && len(s.batch) == 0 {
		return io.EOF
	}
	return s.complete()
}

func (s *Stream) line() error {
	l := s.lines
	switch {
	case l.fields[0][0] == 'c':
		return nil
	case s.net == nil:
		if err := s.dropType(); err != nil {
			return err
		}
		return s.problem.line()
	}
	c := change{line: l.number, kind: l.fields[0][0]}
	if len(l.fields[0]) > 1 {
		c.kind = 0
	}
	var err error
	switch c.kind {
	case 'n':
		err = s.fields(nodeFields, 1, &c.arc[0], &c.supply)
	case 'a':
		err = s.fields(arcFields, 1, &c.arc[0], &c.arc[1], &c.lower, &c.upper, &c.cost)
	case 'x':
		if len(l.fields) == 8 {
			c.hasOld = true
			if c.old, err = l.integer(7, "old cost"); err != nil {
				return err
			}
		}
		err = s.fields(arcFields, 2, &c.arc[0], &c.arc[1], &c.lower, &c.upper, &c.cost)
	case 'r':
		err = s.fields([]string{"id"}, 0, &c.arc[0])
	case 'd':
		var potential int64
		err = s.fields([]string{"supply", "potential", "arcs"}, 1, &c.supply, &potential, &c.arcsToo)
	default:
		return l.fail("unknown change %q, want c, n, a, x, r or d", clip(string(l.fields[0])))
	}
	if err == nil && (c.kind == 'a' || c.kind == 'x') {
		c.upper, err = l.bounds(c.lower, c.upper)
	}
	s.batch = append(s.batch, c)
	return err
}

// dropType takes the type off the n and a lines of the problem.
func (s *Stream) dropType() error {
	l := s.lines
	wanted := map[string]int{"n": 1 + len(nodeFields), "a": 1 + len(arcFields)}[string(l.fields[0])]
	if wanted == 0 || len(l.fields) != wanted+1 {
		return nil
	}
	_, err := l.integer(wanted, "type")
	l.fields = l.fields[:wanted]
	return err
}

// fields reads the named integers, and checks as many more that may be there.
func (s *Stream) fields(names []string, more int, targets ...*int64) error {
	l := s.lines
	for k := len(l.fields); k > 1+len(names) && k <= 1+len(names)+more; k-- {
		if _, err := l.integer(k-1, "type"); err != nil {
			return err
		}
		l.fields = l.fields[:k-1]
	}
	return l.integers(names, targets...)
}

// complete checks that every d line has its arcs.
func (s *Stream) complete() error {
	for i := 0; i < len(s.batch); i++ {
		c := s.batch[i]
		if c.kind != 'd' {
			continue
		}
		found := int64(0)
		for found < c.arcsToo && i+1 < len(s.batch) && s.batch[i+1].kind == 'a' {
			found++
			i++
		}
		if found != c.arcsToo {
			s.lines.number = c.line
			return s.lines.fail("d line announces %d arcs, %d follow", c.arcsToo, found)
		}
	}
	return nil
}
