package flowgraph_test

import (
	"fmt"

	"github.com/sluice-scheduler/sluice/flowgraph"
)

// A class of three tasks alike, two hosts, and the choice to wait.
func Example() {
	n := flowgraph.New()
	class := n.AddNode(3)
	sink := n.AddNode(-3)
	for _, price := range []flowgraph.Cost{10, 20} {
		host := n.AddNode(0)
		n.AddArc(class, host, 0, 1, price)
		n.AddArc(host, sink, 0, 4, 0)
	}
	wait := n.AddArc(class, sink, 0, flowgraph.Infinite, 500)
	_, seen, _ := n.Changes(0)

	n.SetCost(wait, 600)
	touched, _, _ := n.Changes(seen)
	for _, c := range touched {
		if a, ok := c.Arc(); ok {
			fmt.Println(n.Arc(a))
		}
	}
	// Output: {0 1 {0 9223372036854775807} 600}
}
