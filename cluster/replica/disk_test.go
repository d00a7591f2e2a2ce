package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// impatient has a member find out soon that its disk hangs.
func impatient(r *running) { r.disk.patience = 2 * election }

// patient has a member whose elections are short wait for its disk all the same: a busy machine's takes longer than they do.
func patient(r *running) { r.disk.patience = patience }

// A leader whose disk hangs without an error makes room for another one, and stands by when its disk goes on. What waited for the disk is in
// the history or not, as all have it.
func TestADiskThatHangs(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 3)
	for i := range g.live {
		g.startWith(i, impatient)
	}
	first, term := g.lead()
	_, err := write(term, 3)
	require.NoError(t, err)
	g.agree(term.State())
	durable := term.State().Fork()

	disk := &g.live[first].folder.entries.mu // whoever writes holds it
	disk.Lock()
	waiting := make(chan error, 1)
	go func() {
		_, err := write(term, 1)
		waiting <- err
	}()
	select {
	case <-term.Lost():
	case <-time.After(patience):
		require.Fail(t, "the term did not end")
	}
	require.Contains(t, g.said.String(), `reason="replica: the disk does not answer"`)
	select {
	case err := <-waiting: // the member is free to stand by, or to end
		require.ErrorIs(t, err, ErrLost)
	case <-time.After(patience):
		require.Fail(t, "what waits for the disk waits on")
	}
	hung := g.live[first]
	g.live[first] = nil // the group has the other two from now on
	second, after := g.lead()
	require.Equal(t, form(t, durable), form(t, after.State()))
	_, err = write(after, 5)
	require.NoError(t, err)
	require.Equal(t, RoleStandby, hung.answer(question{}).Role)

	disk.Unlock()
	g.live[first] = hung
	g.agree(after.State())
	require.Equal(t, g.peers[second].Name, hung.Leader().Name)
}

// A member can be closed while its disk hangs.
func TestCloseWhileTheDiskHangs(t *testing.T) {
	t.Parallel()
	g := newGroup(t, 1)
	g.startWith(0, impatient)
	_, term := g.lead()
	disk := &g.live[0].folder.entries.mu
	disk.Lock()
	go func() { _, _ = write(term, 1) }()
	<-term.Lost()
	r := g.live[0]
	g.live[0] = nil
	r.cancel()
	require.NoError(t, <-r.ended)
	require.ErrorIs(t, r.Close(), errHangs)
	disk.Unlock()
	require.NoError(t, r.raft.Shutdown().Error())
	require.NoError(t, r.folder.close())
}
