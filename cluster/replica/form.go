package replica

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// askEvery is how often the others are asked until the group has begun.
const askEvery = 300 * time.Millisecond

// form waits until the group begins, or ctx ends, and returns its name; begin says that it is this member that has to begin it. The member has
// looked if it found that nobody had begun: then it has promised nothing yet. So nobody begins before all have.
//
// All members come to the same result, as it depends on what all of them say: that nobody has begun, who has a history, and in which
// order they are. Who begins can be elected by the others although they have nothing: they have no members to be elected by.
func (m *Member) form(ctx context.Context) (group string, begin bool) {
	for {
		var silent, seeds, differ, looking []string
		first := m.config.Peers[0].Name
		for _, p := range m.config.Peers {
			a, err := m.ask(ctx, p)
			switch {
			case err != nil:
				silent = append(silent, p.Name)
				m.log.Debug("a member does not answer", "peer", p.Name, "address", p.Address, "error", err)
				continue
			case a.Begun:
				return a.Group, false
			case p.Name != m.config.Name && !a.SamePeers:
				differ = append(differ, p.Name)
			}
			if a.Seed {
				seeds = append(seeds, p.Name)
			}
			if !a.Looked {
				looking = append(looking, p.Name)
			}
		}
		if len(silent) == 0 {
			m.mu.Lock()
			m.looked = true
			m.mu.Unlock()
		}
		trouble := ""
		switch {
		case len(silent) > 0:
			trouble = fmt.Sprintf("the group begins when all of its members answer: nothing is heard of %s", strings.Join(silent, ", "))
		case len(differ) > 0:
			trouble = fmt.Sprintf("other scheduler.peers than those of %[2]s are set at %[1]s: they have to be the same, in the same order", strings.Join(differ, ", "), m.config.Name)
		case len(seeds) > 1:
			trouble = fmt.Sprintf("%s have a history each: leave it to the one whose history is to be gone on with, and give the others empty folders", strings.Join(seeds, ", "))
		case len(seeds) == 1:
			first = seeds[0]
			fallthrough
		default:
			if first == m.config.Name && len(looking) == 0 {
				m.log.Info("the group begins with this member")
				return m.config.Group, true
			}
		}
		m.waitFor(trouble)
		select {
		case <-ctx.Done():
			return "", false
		case <-time.After(askEvery):
		}
	}
}

// checkGroup refuses to go on with a folder of another group than that of the members that there are.
func (m *Member) checkGroup(ctx context.Context) error {
	same, others := 0, []string{}
	for i, a := range m.askAll(ctx) {
		switch {
		case m.isOfAnother(a):
			others = append(others, m.config.Peers[i].Name)
		case a.Begun:
			same++
		}
	}
	if len(others) < same || len(others) == 0 {
		return nil
	}
	return fmt.Errorf("replica: the folder %s is of another group than %s: leave it to those whose history is to be gone on with, and give the others empty folders",
		m.config.Dir, strings.Join(others, ", "))
}
