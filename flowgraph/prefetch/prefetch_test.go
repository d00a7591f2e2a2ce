package prefetch

import (
	"math"
	"testing"
)

func TestAnyAddress(t *testing.T) {
	x := 7
	Line(&x)
	Line[int](nil)
	list := []struct{ other, index int32 }{{0, 0}, {1, -5}, {2, math.MaxInt32}, {3, math.MinInt32}}
	Each([]int{1}, list, &list[0].index)
	Each([]int(nil), list[:0], &list[0].index)
	Each([]int{1}, list, &list[0].other)
	if x != 7 {
		t.Fatal(x)
	}
	if n := testing.AllocsPerRun(10, func() {
		y, near := 1, []int32{0, 1}
		Line(&y)
		Each([]int{1, 2}, near, &near[0])
	}); n != 0 {
		t.Fatal(n)
	}
}
