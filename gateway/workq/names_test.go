package workq

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestNamesOfLeasesAreBounded(t *testing.T) {
	n := newNames()
	list := make([]string, 3*maxLeased)
	for i := range list {
		list[i] = fmt.Sprint("n", i)
	}
	n.lease(list)
	n.lease([]string{"last"})
	require.True(t, n.exists("last"))
	require.Len(t, n.sorted(), maxLeased)
	_, stop := n.watch(list[:10], func() {})
	require.Len(t, n.known, 10)
	n.update(nil, time.Now())
	require.Len(t, n.known, 10, "they are watched")
	stop()
	require.Empty(t, n.known)
}

func TestNamesThatLoseTheirQueues(t *testing.T) {
	n := newNames()
	n.use("mine", 3, Queue("mine", 3))
	n.add("mine", 3, Queue("mine", 3))
	n.update([]qless.QueueCounts{{Name: Queue("theirs", -1)}}, time.Time{})
	require.Equal(t, []string{"mine", "theirs"}, n.sorted())
	require.ElementsMatch(t, []string{Queue("mine", 3), Queue("theirs", -1)}, n.all())
	n.update(nil, time.Now().Add(time.Hour))
	require.Empty(t, n.all())
	require.Empty(t, n.known)
	require.Equal(t, []string{"mine", "theirs"}, n.sorted(), "names stay, as in Workq")
}

func TestAnUpdateDuringAPutLosesNoName(t *testing.T) {
	n := newNames()
	n.use("slow", 3, Queue("slow", 3))
	asked := time.Now().Add(time.Nanosecond) // before the job reaches the server
	n.update(nil, asked)
	n.add("slow", 3, Queue("slow", 3))
	require.Equal(t, []string{Queue("slow", 3)}, n.queuesOf("slow"))
	n.update(nil, asked)
	require.Equal(t, []string{Queue("slow", 3)}, n.queuesOf("slow"))
}
