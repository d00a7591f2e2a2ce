package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnoverSlides(t *testing.T) {
	one := Resources{Named: []Amount{{Name: "licence", Value: 1 << 60}}}
	one.Fixed[CPU] = 60
	at := func(s int) Time { return Time(0).Add(time.Hour + time.Duration(s)*time.Second) }
	var turnover Turnover
	require.True(t, turnover.Within(time.Minute, at(0)).IsZero())
	for s := range 60 {
		turnover = turnover.freed(at(s), one)
	}
	for _, c := range []struct {
		now    int
		within time.Duration
		want   int64
	}{
		{59, time.Minute, 3600},
		{59, 15 * time.Second, 900},
		{59, 0, 0},
		{59, time.Hour, 3600},      // nothing is known beyond a window
		{60, time.Minute, 3600},    // all of it was in the window before
		{90, time.Minute, 1800},    // half of that counts no more
		{119, time.Minute, 60},     //
		{120, time.Minute, 0},      // a window without any
		{100_000, time.Minute, 0},  //
		{-3600, time.Minute, 3600}, // a clock that was set back
	} {
		require.Equal(t, c.want, turnover.Within(c.within, at(c.now)).Fixed[CPU], "%+v", c)
	}
	within := turnover.freed(at(500), one).Within(15*time.Second, at(500))
	require.Equal(t, int64(1<<60)/4, within.Amount("licence"))
	require.Equal(t, int64(60), turnover.freed(at(70), one).Freed.Fixed[CPU], "a new window")
}
