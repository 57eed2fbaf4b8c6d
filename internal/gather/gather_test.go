package gather

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAFullGroupWaitsForNoMore(t *testing.T) {
	p := New[int](2, false, time.Hour, func() {})
	p.Add("", 1)
	require.Nil(t, p.Next())
	require.Equal(t, 1, p.Room())
	p.Add("", 2)
	require.Zero(t, p.Room())
	require.Equal(t, 2, p.Len())
	require.Equal(t, []int{1, 2}, p.Next())
	require.Zero(t, p.Len())
	require.Nil(t, p.Next())
}

func TestAGroupWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := make(chan bool, 1)
		p := New[int](3, false, time.Second, func() { due <- true })
		p.Add("", 1)
		time.Sleep(time.Second / 2)
		p.Add("", 2)
		p.Settle(false, false)
		require.Nil(t, p.Next())
		began := time.Now()
		<-due
		require.Equal(t, time.Second/2, time.Since(began), "since the first job")
		require.Equal(t, []int{1, 2}, p.Next())
	})
}

func TestAGroupWithoutATimeWaitsForAnAnswer(t *testing.T) {
	p := New[int](9, false, 0, nil)
	p.Add("", 1)
	require.Nil(t, p.Next())
	p.Settle(true, false)
	require.Nil(t, p.Next(), "there may be more")
	p.Settle(true, false)
	require.Equal(t, []int{1}, p.Next(), "an answer has brought none")
	p.Add("", 2)
	p.Settle(false, false)
	require.Equal(t, []int{2}, p.Next(), "there are no more")
	timed := New[int](9, false, time.Hour, func() {})
	timed.Add("", 3)
	timed.Settle(false, true)
	require.Equal(t, []int{3}, timed.Next())
}

func TestAGroupHasOneKey(t *testing.T) {
	p := New[int](2, true, 0, nil)
	for i, key := range []string{"a", "b", "a", "a"} {
		p.Add(key, i)
	}
	require.Equal(t, MostKeyed-4, p.Room())
	require.Equal(t, []int{0, 2}, p.Next())
	require.Nil(t, p.Next())
	p.Remove(1)
	p.Remove(1)
	require.Equal(t, []int{3}, p.TakeAll())
	require.Empty(t, p.groups)
	for i := range MostKeyed {
		p.Add(string(rune('a'+i%20)), i)
	}
	for p.Room() == 0 {
		require.Len(t, p.Next(), 2)
	}
	for p.Next() != nil {
	}
	require.Zero(t, p.Len(), "each key has an even number of jobs")
}

// calls makes a call for jobs, and returns the lists of members passed to the function.
func calls(jobs int, join func(c *Call[int, int])) (lists [][]int) {
	var all []int
	for i := range jobs {
		all = append(all, i)
	}
	join(NewCall(all, func(members []int) { lists = append(lists, members) }))
	return lists
}

func TestACallBeginsWhenAllHaveCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := calls(3, func(c *Call[int, int]) {
			var done sync.WaitGroup
			done.Go(func() { c.Join(0, 10) })
			done.Go(func() { time.Sleep(time.Second); c.Join(1, 11) })
			done.Go(func() { time.Sleep(2 * time.Second); c.Pass(2) })
			done.Wait()
			for i := range 3 {
				c.Pass(i)
			}
			c.Join(1, 12)
		})
		require.Equal(t, [][]int{{10, 11}, {12}}, lists, "the last one has tried again")
	})
}

func TestACallDoesNotWaitForThoseThatWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := calls(3, func(c *Call[int, int]) {
			one := make(chan bool, 1) // a middleware lets one job pass at a time
			var done sync.WaitGroup
			for i := range 3 {
				done.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					one <- true
					defer func() { <-one }()
					c.Join(i, i)
				})
			}
			done.Wait()
		})
		require.Equal(t, [][]int{{0}, {1}, {2}}, lists)
	})
}
