package difftest

import (
	"errors"
	"slices"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// Shrink returns a script that breaks the same law by the same solver as s does,
// from which no single step can be left out, no arc contracted and no number halved; s
// itself if it breaks none. Steps go in chunks of falling size (delta debugging: Zeller and
// Hildebrandt, Simplifying and isolating failure-inducing input, 2002), then arcs, which
// shortens chains, then numbers fall towards zero. It plays at most the given number of scripts.
func Shrink(s Script, contenders []Contender, plays int) Script {
	k := shrinker{contenders: contenders, plays: plays}
	_, err := Play(s, contenders)
	if !errors.As(err, &k.want) {
		return s
	}
	k.best = slices.Clone(s[:k.want.Step+1])
	for size := -1; size != len(k.best) && k.plays > 0; {
		size = len(k.best)
		k.dropSteps()
		k.contractArcs()
		k.reduceNumbers()
	}
	return k.best
}

type shrinker struct {
	contenders []Contender
	want       *Failure
	best       Script
	plays      int
}

// try keeps a script if it fails in the same way.
func (k *shrinker) try(s Script) bool {
	if k.plays == 0 {
		return false
	}
	k.plays--
	_, err := Play(s, k.contenders)
	var got *Failure
	if !errors.As(err, &got) || got.Solver != k.want.Solver || got.Law != k.want.Law {
		return false
	}
	k.best = s[:got.Step+1]
	return true
}

func (k *shrinker) dropSteps() {
	for chunk := len(k.best) / 2; chunk > 0; chunk /= 2 {
		// From the end, where steps hang on those before.
		for to := len(k.best); to > 0; to = min(to-chunk, len(k.best)) {
			k.try(slices.Delete(slices.Clone(k.best), max(0, to-chunk), to))
		}
	}
}

// contractArcs makes the two ends of an arc one node.
func (k *shrinker) contractArcs() {
	for i := len(k.best) - 1; i >= 0; i = min(i-1, len(k.best)-1) {
		if op := k.best[i]; op.Verb == AddArc && op.Args[1] != op.Args[2] {
			// The node that came first stays: others may hang on it.
			k.try(contract(slices.Delete(slices.Clone(k.best), i, i+1), min(op.Args[1], op.Args[2]), max(op.Args[1], op.Args[2])))
		}
	}
}

// contract lets a node take the place of another in every step.
func contract(s Script, node, other int64) Script {
	s = slices.DeleteFunc(s, func(op Op) bool { return op.Verb == AddNode && op.Args[0] == other })
	for i := range s {
		var ends []int64
		switch s[i].Verb {
		case AddArc:
			ends = s[i].Args[1:3]
		case RemoveNode, SetSupply, Tilt:
			ends = s[i].Args[:1]
		}
		for j := range ends {
			if ends[j] == other {
				ends[j] = node
			}
		}
	}
	return s
}

func (k *shrinker) reduceNumbers() {
	for i := 0; i < len(k.best); i++ {
		for j := firstNumber[k.best[i].Verb]; j < arity[k.best[i].Verb]; j++ {
			for i < len(k.best) && k.reduce(i, j) {
			}
			if i == len(k.best) {
				return
			}
		}
	}
}

// firstNumber is where labels end.
var firstNumber = map[Verb]int{AddNode: 1, AddArc: 3, RemoveNode: 1, RemoveArc: 1, SetSupply: 1, Tilt: 1, SetCost: 1, SetBounds: 1}

// reduce tries smaller values of one number and reports whether one was kept.
func (k *shrinker) reduce(i, j int) bool {
	x := k.best[i].Args[j]
	for _, smaller := range []int64{0, x / 2, x - 1, x + 1} {
		if abs(smaller) >= abs(x) || x == flowgraph.Infinite && smaller > 0 {
			continue
		}
		s := slices.Clone(k.best)
		s[i].Args[j] = smaller
		if sound(s[i]) && k.try(s) {
			return true
		}
	}
	return false
}

func abs(x int64) int64 { return max(x, -x) }

// sound tells whether bounds are ones.
func sound(op Op) bool {
	switch op.Verb {
	case AddArc:
		return 0 <= op.Args[3] && op.Args[3] <= op.Args[4]
	case SetBounds:
		return 0 <= op.Args[1] && op.Args[1] <= op.Args[2]
	}
	return true
}
