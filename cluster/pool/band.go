package pool

import "math"

// Band is donors of one leaf that are equally revocable and equally urgent: the law is mostly the same for all
// of them. The zero value is empty. It refers to its donors, and holds for the ledger that they are of.
type Band struct {
	first       *Donor
	least, most []int64 // by dimension: the least of those that give some, and the most
	none        []bool  // by dimension: some give none
}

// Add adds a donor like those that are in the band. Complexity: the dimensions.
func (g *Band) Add(d *Donor) {
	if g.first == nil {
		g.first = d
		g.least, g.most, g.none = make([]int64, len(d.gives)), make([]int64, len(d.gives)), make([]bool, len(d.gives))
		for i := range g.least {
			g.least[i] = math.MaxInt64
		}
	}
	for i, n := range d.gives {
		if n == 0 {
			g.none[i] = true
			continue
		}
		g.least[i], g.most[i] = min(g.least[i], n), max(g.most[i], n)
	}
}

// FromBand answers [Beneficiary.Gives] for a whole band: all of it gives, or none does as some is false, or
// each has to be asked. Complexity: as Gives.
func (b *Beneficiary) FromBand(g *Band) (some, all bool) {
	d := g.first
	switch {
	case d == nil:
		return false, false
	case b.Revocable || d.Revocable:
		return !b.Revocable, !b.Revocable
	case b.leaf == d.leaf && b.fair && b.Priority == d.Priority:
		return true, false
	case b.leaf == d.leaf:
		gives := b.Gives(d)
		return gives, gives
	}
	for i, spare := range b.sparedBy(d.leaf) {
		dim := b.dims[i]
		some = some || g.least[dim] <= spare
		all = all || g.most[dim] <= spare && !g.none[dim]
	}
	return some, all
}

// StaysFor is [Beneficiary.Stays] for a band.
func (b *Beneficiary) StaysFor(g *Band) bool { return g.first != nil && b.Stays(g.first) }

// sparedBy returns for each of the dims how much one unit of another leaf may give at most, so that the pools
// of that leaf below the one that it shares with the beneficiary keep what they are entitled to. Complexity:
// constant if it is the leaf that was asked about last, else the depth of the pools times the dims.
func (b *Beneficiary) sparedBy(leaf int32) []int64 {
	if b.giver == leaf {
		return b.spare
	}
	l := b.ledger
	b.giver, b.spare = leaf, b.spare[:0]
	common := l.common(b.leaf, leaf)
	if !l.policy(common).Across(true) {
		return b.spare
	}
	for _, dim := range b.dims {
		spare := int64(math.MaxInt64)
		for i := leaf; i != common; i = l.tree.nodes[i].parent {
			spare = min(spare, l.holds[i][dim]-l.tree.nodes[i].entitled[dim])
		}
		b.spare = append(b.spare, spare)
	}
	return b.spare
}
