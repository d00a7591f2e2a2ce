// Package parts lets two processors do what one would do, where it is so much that it does not
// matter that a goroutine on the other one begins a tenth of a millisecond after it is called.
package parts

import (
	"sync"
	"sync/atomic"
)

// Do calls do for ranges that cover n things, size of them each and the last perhaps
// fewer, from two goroutines that each take the next range when they are done with one, and
// returns when all are done. Who does what is left to chance: what is done for one range must not depend on
// another, and nothing on their order. Where there is only one range, no goroutine is started.
func Do(n, size int, do func(from, to int)) {
	if n <= size {
		if n > 0 {
			do(0, n)
		}
		return
	}
	var begun atomic.Int64
	work := func() {
		for {
			to := int(begun.Add(int64(size)))
			if to-size >= n {
				return
			}
			do(to-size, min(to, n))
		}
	}
	var other sync.WaitGroup
	other.Go(work)
	work()
	other.Wait()
}
