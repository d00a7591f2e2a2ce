package cluster

import (
	"cmp"
	"slices"
)

// InputIndex finds the inputs that an instance of a job reads. A job may have as many inputs as instances, so that a scan
// for each of its tasks would be quadratic. The zero value has no inputs.
type InputIndex struct {
	inputs  []Input
	inOrder bool // neither First nor Last ever falls: the inputs of an instance are neighbours
}

// IndexInputs returns the index of a job's inputs, which must not be modified while it is in use. Complexity: the inputs.
func IndexInputs(inputs []Input) InputIndex {
	return InputIndex{inputs, slices.IsSortedFunc(inputs, func(a, b Input) int {
		return min(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})}
}

// None reports whether no instance reads anything.
func (x InputIndex) None() bool { return len(x.inputs) == 0 }

// Of returns the inputs that the instance reads, in the job's order. The caller must not modify them. Complexity: the
// logarithm of the inputs where they are in order of the instances, else the inputs.
func (x InputIndex) Of(instance uint32) []Input {
	if !x.inOrder {
		var read []Input
		for _, in := range x.inputs {
			if in.First <= instance && instance <= in.Last {
				read = append(read, in)
			}
		}
		return read
	}
	from, _ := slices.BinarySearchFunc(x.inputs, instance, func(in Input, i uint32) int { return cmp.Compare(in.Last, i) })
	n, _ := slices.BinarySearchFunc(x.inputs[from:], instance, func(in Input, i uint32) int {
		if in.First <= i {
			return -1
		}
		return 1
	})
	return x.inputs[from : from+n : from+n]
}
