package prefetch

import "testing"

func TestAnyAddress(t *testing.T) {
	x := 7
	Line(&x)
	Line[int](nil)
	if x != 7 {
		t.Fatal(x)
	}
	if n := testing.AllocsPerRun(10, func() { y := 1; Line(&y) }); n != 0 {
		t.Fatal(n)
	}
}
