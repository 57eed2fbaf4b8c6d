package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// The sizes of a large namespace, which a page can't read as a whole.
const (
	largeQueues    = 200
	largeWorkers   = 100
	largeGroups    = 200 // of failures, with 10 jobs each
	largeRates     = 480 // pairs of a queue and a klass per minute
	largeRecurring = 60
)

// newLargeDesk returns a desk with a large namespace, whose rates are written like those of
// workers.
func newLargeDesk(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t, web.Options{Interval: time.Hour})
	fill := func(each func(pipe redis.Pipeliner)) {
		pipe := d.server.Client(t).Pipeline()
		each(pipe)
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
	d.fillFailures()
	d.fillQueues()
	now := time.Now()
	fill(func(pipe redis.Pipeliner) {
		for minute := range 4 * 60 {
			at := now.Add(-time.Duration(minute) * time.Minute).Truncate(time.Minute)
			var fields []any
			for i := range largeRates {
				queue, klass := queueNo(i%largeQueues), "Klass"+strconv.Itoa(i/largeQueues)
				fields = append(fields, fmt.Sprintf("%d:%s:%s", len(queue), queue, klass),
					"7,1,2|20:3 21:4 22:2 30:1|10:1 12:5 13:3 25:1")
			}
			pipe.HSet(t.Context(), fmt.Sprintf("ql:x:rates:%d", at.Unix()), fields...)
			if minute%50 == 0 {
				_, err := pipe.Exec(t.Context())
				require.NoError(t, err)
			}
		}
	})
	fill(func(pipe redis.Pipeliner) {
		for i := range largeWorkers {
			name := fmt.Sprintf("worker-%d", i)
			pipe.ZAdd(t.Context(), "ql:workers", redis.Z{Score: float64(now.Unix()), Member: name})
			info, err := json.Marshal(map[string]any{"queues": []string{queueNo(i)}, "slots": 10})
			require.NoError(t, err)
			pipe.Set(t.Context(), "ql:x:worker:"+name,
				fmt.Sprintf("%d|%d|%s", now.Unix(), now.Unix(), info), 0)
		}
	})
	return d
}

func queueNo(i int) string { return "queue-" + strconv.Itoa(i) }

// fillQueues puts waiting, scheduled and recurring jobs into the queues.
func (d *desk) fillQueues() {
	for i := range largeQueues {
		jobs := []qless.JobSpec{
			{Klass: "Send", Options: []qless.PutOption{qless.Tags{"tag-" + strconv.Itoa(i)}}},
			{Klass: "Send", Options: []qless.PutOption{qless.Delay(time.Hour)}},
		}
		if i == 0 {
			for n := range 500 {
				jobs = append(jobs, qless.JobSpec{Klass: "Send", Data: map[string]int{"n": n}})
			}
		}
		_, err := d.Queue(queueNo(i)).PutMany(d.t.Context(), jobs)
		require.NoError(d.t, err)
	}
	for i := range largeRecurring {
		d.recur(queueNo(i%3), "tick-"+strconv.Itoa(i), nil, time.Hour)
	}
}

// fillFailures fails jobs of two klasses in each of many groups.
func (d *desk) fillFailures() {
	for group := range largeGroups {
		specs := make([]qless.JobSpec, 10)
		for i := range specs {
			specs[i].Klass = "Charge" + strconv.Itoa(i%2)
		}
		_, err := d.Queue(queueNo(0)).PutMany(d.t.Context(), specs)
		require.NoError(d.t, err)
		jobs := d.pop(queueNo(0), len(specs))
		for _, job := range jobs {
			err := job.Fail(d.t.Context(), fmt.Sprintf("group-%03d", group), "the bank declined the card")
			require.NoError(d.t, err)
		}
	}
}

// A cost is the work of a server.
type cost struct {
	commands int
	bytes    int // of its replies
}

// costOf returns the cost of a function.
func (d *desk) costOf(rdb *redis.Client, do func()) cost {
	d.t.Helper()
	before := d.spent(rdb)
	do()
	after := d.spent(rdb)
	return cost{after.commands - before.commands, after.bytes - before.bytes}
}

// spent returns the total cost so far, except for INFO.
func (d *desk) spent(rdb *redis.Client) (sum cost) {
	d.t.Helper()
	stats, err := rdb.Info(d.t.Context(), "stats").Result()
	require.NoError(d.t, err)
	commands, err := rdb.Info(d.t.Context(), "commandstats").Result()
	require.NoError(d.t, err)
	lines := bufio.NewScanner(strings.NewReader(stats + "\r\n" + commands))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name == "total_net_output_bytes" {
			sum.bytes, _ = strconv.Atoi(value)
		}
		command, isCommand := strings.CutPrefix(name, "cmdstat_")
		if !isCommand || command == "info" || command == "hello" || strings.HasPrefix(command, "client|") {
			continue
		}
		var calls int
		_, err := fmt.Sscanf(value, "calls=%d", &calls)
		require.NoError(d.t, err)
		sum.commands += calls
	}
	return sum
}

func TestCostOfPages(t *testing.T) {
	web.LimitLooks(t, 0)
	d := newLargeDesk(t)
	rdb := d.server.Client(t)
	jobs, err := d.Queue(queueNo(1)).Peek(t.Context(), 1)
	require.NoError(t, err)
	for _, page := range []struct {
		path            string
		commands, bytes int // the limits of the first view and of later ones
	}{
		{"/", 1950, 240_000},
		{"/?by=queue", 1950, 240_000},
		{"/?by=queue&over=3d", 1950, 335_000},
		{"/queues", 1950, 240_000},
		{"/queues/queue-0", 870, 60_000},
		{"/queues/queue-0?list=scheduled", 750, 50_000},
		{"/queues/queue-0?by=klass&over=3d", 870, 75_000},
		{"/queues/queue-0/why", 700, 45_000},
		{"/jobs/" + jobs[0].JID, 10, 10_000},
		{"/jobs/" + jobs[0].JID + "/graph", 20, 10_000},
		{"/failures", 350, 125_000},
		{"/failures/group-001", 60, 12_000},
		{"/klasses?over=15m", 10, 120_000},
		{"/klasses", 10, 120_000},
		{"/klasses?over=3h", 10, 120_000},
		{"/klasses?over=24h", 10, 120_000},
		{"/klasses?over=3d", 10, 120_000},
		{"/klasses/Klass1?over=15m", 10, 60_000},
		{"/klasses/Klass1", 10, 60_000},
		{"/klasses/Klass1?over=3d", 10, 60_000},
		{"/workers", 350, 20_000},
		{"/workers/worker-1", 350, 20_000},
		{"/recurring", 1650, 40_000},
		{"/recurring/tick-1", 25, 10_000},
		{"/schedules", 10, 10_000},
		{"/limits", 25, 10_000},
		{"/tracked", 10, 10_000},
		{"/completed", 10, 10_000},
		{"/tags", 60, 20_000},
		{"/tags/tag-1", 10, 10_000},
		{"/activity", 10, 10_000},
		{"/settings", 10, 10_000},
		{"/server", 10, 30_000},
		{"/unique", 40, 20_000},
		{"/batches", 1650, 40_000},
		{"/doctor", 10, 10_000},
		{"/find", 1650, 40_000},
		{"/find?q=Nothing", 2400, 40_000},
		{"/find?q=tag-1", 2400, 40_000},
		{"/actions/queue.pause?queue=queue-0", 10, 10_000},
	} {
		t.Run(page.path, func(t *testing.T) {
			looker := *d
			looker.t = t
			looker.requireCost(rdb, page.path, page.commands, page.bytes)
		})
	}
}

// requireCost requires that the first view of a page, and one in the next turn, cost the server at
// most some commands and bytes, and a repeated view little.
func (d *desk) requireCost(rdb *redis.Client, path string, commands, bytes int) {
	d.t.Helper()
	never := strconv.FormatInt(time.Now().Add(time.Hour).Unix()/60, 10)
	require.NoError(d.t, rdb.Set(d.t.Context(), "ql:x:recorded", never, 0).Err(),
		"one view a minute records the histories: none of these")
	loader := d.fresh(rdb)
	for range 2 { // loads the scripts
		web.EndTurn(loader.handler.(*web.Handler))
		loader.page(path)
	}
	fresh := d.fresh(rdb)
	view := func() { fresh.page(path) }
	first := fresh.costOf(rdb, view)
	again := fresh.costOf(rdb, view)
	web.EndTurn(fresh.handler.(*web.Handler))
	next := fresh.costOf(rdb, view)
	d.t.Logf("%+v; in the next turn %+v", first, next)
	for _, look := range []cost{first, next} {
		require.LessOrEqual(d.t, look.commands, commands)
		require.LessOrEqual(d.t, look.bytes, bytes)
	}
	require.LessOrEqual(d.t, again.commands, 10)
}

func TestCostOfLimitsThatJobsWaitFor(t *testing.T) {
	d := newDesk(t, web.Options{Interval: time.Hour})
	for i := range 30 {
		name := "shop-" + strconv.Itoa(i)
		limited := qless.JobSpec{Klass: "Ship", Options: []qless.PutOption{qless.Limits{name}}}
		_, err := d.Queue(name).PutMany(t.Context(), slices.Repeat([]qless.JobSpec{limited}, 300))
		require.NoError(t, err)
		require.NoError(t, d.Limit(name).Set(t.Context(), qless.LimitConfig{Concurrency: 10}))
		d.pop(name, 20)
	}
	rdb := d.server.Client(t)
	d.requireCost(rdb, "/limits", 270, 110_000)
	d.requireCost(rdb, "/limits/shop-0", 150, 22_000)
}

// fresh returns a desk with a new dashboard.
func (d *desk) fresh(rdb *redis.Client) *desk {
	d.t.Helper()
	options := web.Options{Interval: time.Hour, Logger: testkit.Quiet()}
	return d.at(web.New(options, web.Source{Client: d.Client, Redis: rdb}))
}
