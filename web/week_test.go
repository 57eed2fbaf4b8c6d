package web

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDaysThatAreOverAreReadOnce(t *testing.T) {
	var d days
	now := time.Date(2026, 1, 2, 22, 0, 0, 0, time.UTC)
	var queues []string
	for i := range weekQueues {
		queues = append(queues, "queue-"+strconv.Itoa(i))
	}
	reads := map[queueDay]int{}
	look := func() {
		read := d.old(queues, now, 4)
		require.LessOrEqual(t, len(read), 4)
		for _, one := range read {
			reads[one]++
			d.counts.set(one, dayCount{completed: 2, failed: 1}, now, 2*weekQueues*(1+weekDays))
		}
		now = now.Add(2 * time.Second)
	}
	look()
	require.Empty(t, reads, "the first view leaves them to the next ones")
	for looks := 0; looks == 0 || d.week(queues, now).HasMore; looks++ {
		look()
		require.Less(t, looks, 1000)
	}
	week := d.week(queues, now)
	require.Equal(t, "2026-01-02", week.Days[0].Date)
	require.Len(t, week.Days, 1+weekDays)
	for _, day := range week.Days {
		require.Equal(t, dayData{day.Date, 2 * weekQueues, weekQueues, false}, day)
	}
	for one, count := range reads {
		require.Equal(t, 1, count, "%v: today is read again when all is known", one)
	}
	for range 1000 {
		look()
	}
	today := now.Truncate(24 * time.Hour)
	for one, count := range reads {
		if one.day.Equal(today) {
			require.Greater(t, count, 5, one.queue)
		} else {
			require.Equal(t, 1, count, "%v", one)
		}
	}

	now = now.Add(3 * time.Hour) // it is the next day
	for range 1000 {
		look()
	}
	yesterday := queueDay{queues[0], today}
	before := reads[yesterday]
	count, _ := d.counts.get(yesterday)
	require.Equal(t, dayCount{2, 1}, count.value)
	for range 1000 {
		look()
	}
	require.Equal(t, before, reads[yesterday], "it is over")
}
