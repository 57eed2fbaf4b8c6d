package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
)

func TestManyJobsKeepTheirOrder(t *testing.T) {
	e := newEnv(t)
	q := e.NewLiveClient(e.Redis, qless.ClientConfig{}).Queue("q")
	jobs := specs(2500)
	put := must(q.PutMany(t.Context(), jobs))(t)
	last := must(q.Put(t.Context(), "K", nil))(t)
	popped := must(q.Pop(t.Context(), 3000))(t)
	require.Equal(t, append(put, last), jids(popped))

	put = must(q.PutMany(t.Context(), nil))(t)
	require.Empty(t, put)
}

func TestPutManyIsAllOrNothing(t *testing.T) {
	e := newEnv(t)
	good := qless.JobSpec{Klass: "K"}
	j := spec(qless.JID("j"))
	e.Unchanged(func() {
		for _, bad := range []qless.JobSpec{
			{}, {Klass: "\xff"}, {Klass: "K", Data: raw("{")}, {Klass: "K", Data: make(chan int)}, j,
			spec(qless.Retries(-1)),
			spec(qless.JID("x"), qless.DependsOn{"x"}),
		} {
			jids, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{good, j, bad, good})
			requireCode(t, qless.ErrInvalid, err)
			require.Empty(t, jids)
		}
		requireCode(t, qless.ErrInvalid, errOf(e.Queue("").PutMany(t.Context(), []qless.JobSpec{good})))
	})
}

func TestPutManyReportsWhichJobsWerePut(t *testing.T) {
	e, proxy, client := proxied(t)
	jobs := make([]qless.JobSpec, 2500)
	for i := range jobs {
		jobs[i] = spec(qless.JID(fmt.Sprint(i)))
	}
	proxy.CutAfterRequest("$4\r\n1200\r\n")
	put, err := client.Queue("q").PutMany(t.Context(), jobs)
	requireCode(t, qless.ErrUnavailable, err)
	require.Len(t, put, 1000)
	require.Equal(t, 1000, e.Counts("q").Waiting)
}

func TestBatchedPutsOfManyGoroutines(t *testing.T) {
	e := newEnv(t)
	together(200, func(i int) {
		queue, jid := fmt.Sprint("q", i%3), fmt.Sprint(i)
		got, err := e.Queue(queue).Put(t.Context(), "K", i, qless.JID(jid))
		if err != nil || got != jid {
			t.Errorf("put of %s: %s, %v", jid, got, err)
		}
	})
	for i := range 200 {
		job := e.Read(fmt.Sprint(i))
		require.Equal(t, fmt.Sprint(i), string(job.Data))
		require.Equal(t, fmt.Sprint("q", i%3), job.Queue)
		require.Equal(t, []string{"put"}, whats(job.History))
	}
	require.Equal(t, 67, e.Counts("q0").Waiting)
}

func TestBatchedPutsOnAServerThatForgetsItsScripts(t *testing.T) {
	e := newEnv(t)
	together(8, func(i int) {
		for range 25 {
			if i == 0 {
				assert.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
			}
			assert.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil)))
		}
	})
	require.Equal(t, 200, e.Counts("q").Waiting)
}

func TestABatchedPutOfTheSameJobIsPutAgain(t *testing.T) {
	e := newEnv(t)
	together(50, func(int) {
		assert.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"))))
	})
	require.Len(t, e.Read("j").History, 50)
	require.Equal(t, 1, e.Counts("q").Waiting)
}

func TestABatchedPutThatIsRefusedSpoilsNoOther(t *testing.T) {
	e := newEnv(t)
	together(60, func(i int) {
		retries := i % 2 * -1
		_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID(fmt.Sprint(i)), qless.Retries(retries))
		if (err != nil) != (retries < 0) {
			t.Errorf("put of %d: %v", i, err)
		}
	})
	require.Equal(t, 30, e.Counts("q").Waiting)
}

func TestABatchedPutOfADamagedJobHarmsNoOther(t *testing.T) {
	for what, put := range map[string]func(*qless.Queue) (string, error){
		"a dependency that is damaged": func(q *qless.Queue) (string, error) {
			return q.Put(t.Context(), "K", nil, qless.DependsOn{"damaged"})
		},
		"a job that is damaged": func(q *qless.Queue) (string, error) {
			return q.Put(t.Context(), "K", nil, qless.JID("damaged"))
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			require.NoError(t, e.Redis.Set(t.Context(), "ql:j:damaged", "no hash", 0).Err())
			q := e.Queue("q")
			together(200, func(i int) {
				if i == 100 {
					if _, err := put(q); !errors.Is(err, qless.ErrServer) {
						t.Errorf("the put of the damaged job: %v", err)
					}
				} else if _, err := q.Put(t.Context(), "K", nil); err != nil {
					t.Errorf("put of %d: %v", i, err)
				}
			})
			require.Equal(t, 199, e.Counts("q").Waiting)
		})
	}
}

func TestABatchedPutEndsWithItsContext(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Queue("q").Put(ctx, "K", nil)
	if err != nil {
		requireCode(t, qless.ErrUnavailable, err)
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil)))
}

// invalidJobs tries each way to put many jobs, and requires that the error is about one of them and
// that nothing is put.
func (e *env) invalidJobs(jobs []qless.JobSpec, jid, message string) {
	e.T.Helper()
	e.Unchanged(func() {
		for what, putMany := range map[string]func(context.Context, []qless.JobSpec) ([]string, error){
			"a queue":         e.Queue("q").PutMany,
			"a sharded queue": e.sharded(shards.ByQueue, 3).Queue("q").PutMany,
		} {
			put, err := putMany(e.T.Context(), jobs)
			failure := requireCode(e.T, qless.ErrInvalid, err)
			require.Equal(e.T, jid, failure.JID, what)
			require.Equal(e.T, message, failure.Message, what)
			require.Empty(e.T, put, what)
		}
	})
}

// named returns n jobs with the jids 0, 1, 2 and so on.
func named(n int) []qless.JobSpec {
	jobs := make([]qless.JobSpec, n)
	for i := range jobs {
		jobs[i] = spec(qless.JID(fmt.Sprint(i)))
	}
	return jobs
}

func TestPutManyRefusesAJIDThatIsNamedTwice(t *testing.T) {
	e := newEnv(t)
	for _, n := range []int{2, 1000, 1001, 2500} {
		jobs := append(named(n), named(1)...)
		e.invalidJobs(jobs, "0", fmt.Sprintf("jobs[%d]: jobs[0] has the same jid", n))
	}
}

func TestPutManyRefusesADependencyOnALaterJob(t *testing.T) {
	e := newEnv(t)
	for _, later := range []int{7, 2000} {
		jobs := named(2500)
		jobs[3].Options = append(jobs[3].Options, qless.DependsOn{"2", fmt.Sprint(later)})
		e.invalidJobs(jobs, "3", fmt.Sprintf("jobs[3]: depends on jobs[%d], which comes after it", later))
	}
	jobs := named(2000)
	jobs[1500].Options = append(jobs[1500].Options, qless.DependsOn{"3", "1200"})
	e.puts("q", jobs...)
	require.ElementsMatch(t, []string{"3", "1200"}, e.Read("1500").Dependencies)
}

func TestPutManyReportsWhichJobCannotBePut(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		bad     qless.JobSpec
		message string
	}{
		{qless.JobSpec{}, "the klass is empty"},
		{qless.JobSpec{Klass: "K", Data: make(chan int)}, "the data can't be JSON: json: unsupported type: chan int"},
		{qless.JobSpec{Klass: "K", Data: raw("{")}, `the data is not JSON: "{"`},
		{spec(qless.Retries(-1)), "the retries -1 is not from 0 to 2147483647"},
		{spec(qless.Delay(-1)), "the delay -1ns is negative"},
		{spec(qless.Tags{""}), "the tag is empty"},
		{spec(qless.DependsOn{"x"}), "the job depends on itself"},
	} {
		c.bad.Options = append(c.bad.Options, qless.JID("x"))
		e.invalidJobs(append(named(4), c.bad), "x", "jobs[4]: "+c.message)
	}
}

// The jobs of a batch are put in order: each may wait for the jobs before it.
func TestJobsOfABatchWaitForThoseBeforeThem(t *testing.T) {
	e := newEnv(t)
	put := func(queue, jid, depends string) []any {
		return []any{queue, jid, "K", "{}", "0", "2", "depends", depends}
	}
	line := slices.Concat([]any{"w1", "1"}, put("a", "1", `["2"]`), put("b", "2", `["1", "3"]`), put("a", "3", `["1", "2"]`))
	e.run("put.many", line...)
	require.Equal(t, qless.StateWaiting, e.Read("1").State)
	require.Equal(t, []string{"1"}, e.Read("2").Dependencies)
	require.Equal(t, []string{"1", "2"}, sorted(e.Read("3").Dependencies))
}
