package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAGroupGrowsIfItWasSmallerInTheLastMinutes(t *testing.T) {
	var g growth
	begin := time.Now().Add(-time.Hour)
	look := func(after time.Duration, groups map[string]int) {
		g.add(sizes{begin.Add(after), groups})
	}
	look(0, map[string]int{"smtp": 3, "same": 4})
	require.Empty(t, g.most(5), "it is the first view")
	look(time.Second, map[string]int{"smtp": 5, "same": 4, "new": 7, "less": 0})
	most := g.most(5)
	require.Len(t, most, 2)
	require.Equal(t, "new", most[0].Name)
	require.Equal(t, 7, most[0].More)
	require.Equal(t, "smtp", most[1].Name)
	require.Equal(t, 2, most[1].More)
	require.Len(t, g.most(1), 1)
	require.Nil(t, g.of("same"))

	for i := range 100 {
		look(time.Duration(i)*10*time.Second, map[string]int{"smtp": 10 + i})
	}
	grown := g.of("smtp")
	require.Equal(t, 109, grown.Jobs)
	require.InDelta(t, growthTime.Seconds()/10, grown.More, 4)
	require.LessOrEqual(t, len(g.sizes), 2+int(growthTime/growthStep))
	require.Contains(t, grown.Spark(), `class="spark"`)

	look(10*time.Hour, map[string]int{"smtp": 130})
	require.Equal(t, 21, g.of("smtp").More, "since the look before, which was long ago")
}
