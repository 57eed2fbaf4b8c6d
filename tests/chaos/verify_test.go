package chaos

import (
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// toll is the cost of the disturbances.
type toll struct {
	runs     int // runs of handlers
	popped   int // jobs given to workers
	timedOut int // locks that ended
	done     int // jobs completed
}

// verify checks all invariants when the jobs are complete and the workers have stopped.
func (a *arena) verify() toll {
	a.t.Helper()
	a.verifyCounts()
	cost := a.verifyHistories()
	a.verifyStats(cost)
	a.verifyKeys()
	requireWell(a.t, a.rdb)
	byJob := lives(a.records, a.ends)
	for _, runs := range byJob {
		cost.runs += len(runs)
	}
	assert.Empty(a.t, overlaps(byJob), "runs of a job that were live at the same time")
	assert.Empty(a.t, foreigners(a.records, a.ends), "runs whose job was another worker's")
	assert.Len(a.t, byJob, a.jobs, "jobs that were run")
	a.t.Logf("%d jobs, %d times popped, %d runs, %d locks ended", a.jobs, cost.popped, cost.runs, cost.timedOut)
	return cost
}

// verifyCounts checks that all jobs are complete, and none is in another state.
func (a *arena) verifyCounts() {
	a.t.Helper()
	counts, err := a.client.Queue(queueName).Counts(a.ctx)
	require.NoError(a.t, err)
	assert.Equal(a.t, qless.QueueCounts{Name: queueName}, counts)
	failed, err := inspect.New(a.client).FailureGroups(a.ctx)
	require.NoError(a.t, err)
	assert.Empty(a.t, failed)
	complete, err := a.rdb.ZCard(a.ctx, "ql:completed").Result()
	require.NoError(a.t, err)
	assert.EqualValues(a.t, a.jobs, complete)
}

// verifyHistories checks each job, and sums up their events.
func (a *arena) verifyHistories() toll {
	a.t.Helper()
	const page = 500
	var sum toll
	for from := 0; from < a.jobs; from += page {
		wanted := a.jids[from:min(from+page, a.jobs)]
		jobs, err := a.client.Jobs(a.ctx, wanted...)
		require.NoError(a.t, err)
		require.Len(a.t, jobs, len(wanted))
		for _, job := range jobs {
			times := map[string]int{}
			for _, entry := range job.History {
				times[entry.What]++
			}
			assert.Equal(a.t, qless.StateComplete, job.State, "state of %s", job.JID)
			assert.Equal(a.t, 1, times["put"], "%s was put", job.JID)
			assert.Equal(a.t, 1, times["done"], "%s was completed", job.JID)
			assert.Equal(a.t, jobRetries, job.Remaining, "retries of %s", job.JID)
			sum.popped += times["popped"]
			sum.timedOut += times["timed-out"]
			sum.done += times["done"]
		}
	}
	return sum
}

// verifyStats checks that the daily statistics agree with the histories.
func (a *arena) verifyStats(cost toll) {
	a.t.Helper()
	days := []time.Time{a.began}
	if now := time.Now(); now.UTC().Day() != a.began.UTC().Day() {
		days = append(days, now)
	}
	var sum qless.Stats
	for _, day := range days {
		stats, err := a.client.Queue(queueName).Stats(a.ctx, day)
		require.NoError(a.t, err)
		sum.Failed += stats.Failed
		sum.Failures += stats.Failures
		sum.Retries += stats.Retries
		sum.Wait.Count += stats.Wait.Count
		sum.Run.Count += stats.Run.Count
	}
	assert.Zero(a.t, sum.Failed, "failed jobs")
	assert.Zero(a.t, sum.Failures, "failures")
	assert.Equal(a.t, cost.timedOut, sum.Retries, "locks that ended")
	assert.Equal(a.t, cost.popped, sum.Wait.Count, "jobs handed out")
	assert.Equal(a.t, cost.done, sum.Run.Count, "jobs completed")
}

// requireWell requires that nothing in the namespace is damaged. Leftovers of killed workers are
// logged.
func requireWell(t testing.TB, rdb *redis.Client) {
	t.Helper()
	report, err := doctor.Examine(t.Context(), rdb, doctor.Options{Pause: -1})
	require.NoError(t, err)
	require.Empty(t, report.With(doctor.Broken))
	leftovers := map[doctor.ReasonCode]int{}
	for _, finding := range report.With(doctor.Leftover) {
		leftovers[finding.Code]++
	}
	t.Log("left over: ", leftovers)
}

// left matches the keys that may exist in the end: completed jobs and their histories, settings,
// statistics, histories of queues, known queues and workers, marks of idle workers, and the lease
// of a relay, which lasts for a while after the relay is killed.
var left = regexp.MustCompile(`^ql:(completed|config|queues|workers|s:(wait|run|stats):\d+:work|` +
	`j:job-\d+(-history)?|x:(due:work|history.*|idle(:work)?|recorded|rates:.+|relay|unrelayed|worker:.+))$`)

func (a *arena) verifyKeys() {
	a.t.Helper()
	var odd []string
	keys := a.rdb.Scan(a.ctx, 0, "*", 1000).Iterator()
	for keys.Next(a.ctx) {
		if !left.MatchString(keys.Val()) {
			odd = append(odd, keys.Val())
		}
	}
	require.NoError(a.t, keys.Err())
	assert.Empty(a.t, odd, "keys that were left behind")
}
