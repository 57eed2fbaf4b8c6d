package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
)

// The model has the other fields.
func TestAJobThatIsPutReadsBack(t *testing.T) {
	e := newEnv(t)
	data := map[string]any{"to": "ann"}
	jid := must(e.Queue("q").Put(t.Context(), "Mail::Welcome", data, qless.Priority(-3)))(t)
	require.Regexp(t, "^[0-9a-f]{32}$", jid)
	require.NotEqual(t, jid, e.Put("q"))
	job := e.Read(jid)
	require.Equal(t, "Mail::Welcome", job.Klass)
	require.Equal(t, `{"to":"ann"}`, string(job.Data))
	require.Equal(t, -3, job.Priority)
	require.Equal(t, []qless.HistoryEntry{{When: noon.Local(), What: "put", Queue: "q"}}, job.History)
	jid = must(e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.Backlog(4)))(t)
	require.Regexp(t, "^[0-9a-f]{32}$", jid)
	require.Equal(t, "{}", string(e.recurring(jid).Data))
	require.Equal(t, [2]int{5, 4}, [2]int{e.recurring(jid).Retries, e.recurring(jid).Backlog})
}

func TestDataIsKeptByteForByte(t *testing.T) {
	e := newEnv(t)
	for _, data := range []string{
		`{ "a" :  1 ,"b":[ ] }`, `[]`, `{}`, `null`, `true`, `"text"`, `""`, `-0.0`, `1e2`,
		`12345678901234567890`, `0.1234567890123456789`, `{"big":12345678901234567890,"empty":[],"none":{}}`,
		"{\n\t\"tab\": \"\\t\\u00e9\\ud83d\\ude00\"\n}", `"é中😀"`, `"\u0000"`, `"<&>"`, `"a\/b"`, ` [1] `,
		`{"a":1,"a":2}`, `{"":{"":[[[[]]]]}}`,
	} {
		jid, err := e.Queue("q").Put(t.Context(), "K", raw(data))
		require.NoError(t, err, data)
		require.Equal(t, data, string(e.Read(jid).Data))

		job := e.Pop("q")
		require.Equal(t, data, string(job.Data))
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
		require.Equal(t, data, string(e.Read(jid).Data), "after a heartbeat")
		require.NoError(t, job.Fail(t.Context(), "g", "m"))
		require.Equal(t, data, string(e.Read(jid).Data), "after it failed")
		require.NoError(t, job.Move(t.Context(), "q"))
		require.Equal(t, data, string(e.Read(jid).Data), "after a move")
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.Equal(t, data, string(e.Read(jid).Data), "after it was completed")
	}
}

func TestPutManyJobsArePoppedInOrderAtAnyPriority(t *testing.T) {
	for _, priority := range []int{0, 1, 10, 1000, 100_000, 1 << 30, -1, -16, -1000} {
		runEnv(t, fmt.Sprint(priority), func(t *testing.T, e *env) {
			put := e.puts("q", specs(500, qless.Priority(priority))...)
			require.Equal(t, put, jids(e.Pops("q", 500)))
		})
	}
}

// A put that is remembered is not done again, even if the job is gone, until the server forgets it.
func TestAJobIsPutOnceEvenIfItIsGone(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	puts := []inside.Put{{Queue: "q", JID: "a", Klass: "K", Data: "{}"}, {Queue: "p", JID: "b", Klass: "K", Data: "{}"}}
	for _, found := range [][]inside.Found{nil, {{At: 0, JID: "a", State: "put"}, {At: 1, JID: "b", State: "put"}}} {
		n, left, err := inside.PutOnce(ctx, e.Client, puts)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, found, left)
		_ = e.Client.Cancel(ctx, "a", "b")
	}
	third := inside.Put{Queue: "q", JID: "c", Klass: "K", Data: "{}"}
	third.Options.DependsOn = []string{"d"}
	n, left, err := inside.PutOnce(ctx, e.Client, []inside.Put{puts[0], {Queue: "p", JID: "d", Klass: "K", Data: "{}"}, third})
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Equal(t, []inside.Found{{At: 0, JID: "a", State: "put"}}, left)
	require.Equal(t, []string{"d"}, must(e.Client.Job(ctx, "c"))(t).Dependencies)
}

// A wait begins before the job exists, or for one that an outbox has given up.
func TestWaitForAJobThatIsPutLater(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	t.Cleanup(func() { _ = e.Client.Close() })
	ended := make(chan error, 1)
	go func() {
		_, err := e.Client.Wait(ctx, "later", qless.AwaitPut(time.Minute))
		ended <- err
	}()
	queue := e.Client.Queue("q")
	require.NoError(t, errOf(queue.Put(ctx, "K", nil, qless.JID("later"))))
	require.NoError(t, must(queue.Pop(ctx, 1))(t)[0].Complete(ctx))
	require.NoError(t, testkit.Soon(t, "the wait ends", ended))
	_, err := e.Client.Wait(ctx, "never", qless.AwaitPut(30*time.Millisecond))
	require.ErrorIs(t, err, qless.ErrNotFound)
}

// Puts of many goroutines share scripts, unless a client sends each alone.
func TestOfPutsAtOnceOnePutsTheJob(t *testing.T) {
	for name, options := range map[string]func(round int) []qless.PutOption{
		"a jid": func(round int) []qless.PutOption {
			return []qless.PutOption{qless.JID(fmt.Sprint("j", round)), qless.IfAbsent}
		},
		"a key":      func(round int) []qless.PutOption { return []qless.PutOption{qless.Unique(round)} },
		"a replaced": func(round int) []qless.PutOption { return []qless.PutOption{qless.Unique(round).Replace()} },
	} {
		for _, config := range []qless.ClientConfig{{}, {Unbatched: true}} {
			t.Run(fmt.Sprint(name, config.Unbatched), func(t *testing.T) {
				e := newEnvWith(t, config)
				clients := []*qless.Client{e.Client, e.NewClient(e.Redis, config)}
				for round := range 10 {
					const putters = 20
					var put atomic.Int64
					var found [putters]string
					together(putters, func(n int) {
						jid, err := clients[n%2].Queue("q").Put(t.Context(), "K", n, options(round)...)
						if found[n] = jid; err == nil {
							put.Add(1)
						} else if !errors.Is(err, qless.ErrExists) {
							t.Error(err)
						}
					})
					require.Equal(t, slices.Repeat(found[:1], putters), found[:])
					require.Equal(t, 1+round, e.Counts("q").Waiting)
					if name == "a replaced" {
						require.EqualValues(t, putters, put.Load())
						continue
					}
					require.EqualValues(t, 1, put.Load())
					require.Equal(t, []string{"put"}, whats(e.Read(found[0]).History))
				}
			})
		}
	}
}

func TestJobsOfAPutManyThatExistDoNotStopTheOthers(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("b"), qless.Priority(3))
		e.Put("q", qless.JID("d"))
		before := e.Read("b")
		spec := func(jid string, more ...qless.PutOption) qless.JobSpec {
			return qless.JobSpec{Klass: "New", Options: append(more, qless.JID(jid), qless.IfAbsent)}
		}
		jobs := []qless.JobSpec{
			spec("a"), spec("b"), {Klass: "New"}, spec("d", qless.DependsOn{"a"}), spec("e", qless.DependsOn{"a", "b"}),
		}
		got, err := e.Queue("q").PutMany(t.Context(), jobs)
		require.Len(t, got, 5)
		require.Equal(t, []string{"a", "b", got[2], "d", "e"}, got)
		own := requireCode(t, qless.ErrExists, err)
		require.Equal(t, []int{1, 3}, own.Indices)
		require.Equal(t, "2 jobs exist: jobs[1], jobs[3]", own.Message)
		require.Empty(t, own.JID)
		require.Equal(t, before.Priority, e.Read("b").Priority)
		require.Equal(t, "K", e.Read("b").Klass)
		require.Empty(t, e.Read("d").Dependencies)
		require.Empty(t, e.Read("d").Dependents)
		require.ElementsMatch(t, []string{"a", "b"}, e.Read("e").Dependencies)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 4, Depends: 1}, e.Counts("q"))

		got, err = e.Queue("q").PutMany(t.Context(), jobs[:1])
		require.Equal(t, []string{"a"}, got)
		own = requireCode(t, qless.ErrExists, err)
		require.Equal(t, []int{0}, own.Indices)
		require.Equal(t, "a", own.JID)
		require.Equal(t, "jobs[0]: the job exists and is waiting", own.Message)
	})
}

func TestJobsThatExistInAPutManyOfSeveralScripts(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"j0", "j1500", "j2400"} {
		e.Put("q", qless.JID(jid))
	}
	jobs := specs(2500)
	want := make([]string, len(jobs))
	for i := range jobs {
		want[i] = fmt.Sprint("j", i)
		jobs[i].Options = []qless.PutOption{qless.JID(want[i]), qless.IfAbsent}
	}
	got, err := e.Queue("q").PutMany(t.Context(), jobs)
	require.Equal(t, want, got)
	require.Equal(t, []int{0, 1500, 2400}, requireCode(t, qless.ErrExists, err).Indices)
	require.Equal(t, 2500, e.Counts("q").Waiting)

	got, err = e.Queue("q").PutMany(t.Context(), jobs)
	require.Equal(t, want, got)
	own := requireCode(t, qless.ErrExists, err)
	require.Len(t, own.Indices, 2500)
	require.Regexp(t, `^2500 jobs exist: jobs\[0\], .*, jobs\[9\], 2490 more$`, own.Message)
}

func TestJobsThatExistInShards(t *testing.T) {
	e := newEnv(t)
	q := e.sharded(shards.ByJID, 2).Queue("q")
	jobs := specs(20)
	var want []string
	for i := range jobs {
		want = append(want, fmt.Sprint("j", i))
		jobs[i].Options = []qless.PutOption{qless.JID(want[i]), qless.IfAbsent}
	}
	even, odd := []int{}, []qless.JobSpec{}
	for i := range jobs {
		if i%2 == 0 {
			even = append(even, i)
			require.NoError(t, errOf(q.Put(t.Context(), "K", nil, jobs[i].Options...)))
		} else {
			odd = append(odd, jobs[i])
		}
	}
	jid, err := q.Put(t.Context(), "K", nil, jobs[0].Options...)
	require.Equal(t, "j0", jid)
	requireCode(t, qless.ErrExists, err)
	got, err := q.PutMany(t.Context(), jobs)
	require.Equal(t, want, got)
	require.Equal(t, even, requireCode(t, qless.ErrExists, err).Indices)
	require.Len(t, requireCode(t, qless.ErrExists, errOf(q.PutMany(t.Context(), odd))).Indices, 10)
}

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

func TestABatchedPutOfTheSameJobIsPutAgain(t *testing.T) {
	e := newEnv(t)
	together(50, func(int) {
		assert.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"))))
	})
	require.Len(t, e.Read("j").History, 50)
	require.Equal(t, 1, e.Counts("q").Waiting)
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
		{qless.JobSpec{Klass: "\xff"}, `the klass "\xff" is not UTF-8`},
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

// FuzzPut puts a job with any values: it is refused without writing anything, or it reads back
// equal.
func FuzzPut(f *testing.F) {
	f.Add("q", "K", "j", `{"a": 1}`, int64(0), 0, 5, "a,b")
	f.Add("", "", "", "", int64(-1), -1, -1, "")
	f.Add("q\x00", "\u2028", "all", `[ ]`, int64(1), 1<<31-1, 0, "a,a,é,%s")
	f.Add("*", "a\nb", "j-history", `"\ud800"`, int64(time.Hour), -1<<31, 1<<31-1, "null,\xff")
	f.Add("{tag}", `"`, `\`, `12345678901234567890`, int64(1<<62), 1<<31, 1<<31, `"],["`)
	f.Add("q", "K", "j", strings.Repeat("[", 1100)+strings.Repeat("]", 1100), int64(0), 0, 5, "-")
	f.Add("q", "K", "j", `{"\u0000":"\u0000\n","a":[1e400,-0,1.0]}`, int64(0), 0, 5, "\x00")
	e := newEnv(f)
	f.Fuzz(func(t *testing.T, queue, klass, jid, data string, delay int64, priority, retries int, tags string) {
		require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
		options := []qless.PutOption{
			qless.JID(jid), qless.Delay(time.Duration(delay)), qless.Priority(priority), qless.Retries(retries),
		}
		var list []string
		if tags != "" {
			list = strings.Split(tags, ",")
			options = append(options, qless.Tags(list))
		}
		jid, err := e.Queue(queue).Put(t.Context(), klass, raw(data), options...)
		if err != nil {
			require.True(t, errors.Is(err, qless.ErrInvalid), "%v", err)
			require.Zero(t, e.Redis.DBSize(t.Context()).Val())
			return
		}
		job := must(e.Job(t.Context(), jid))(t)
		require.Equal(t, jid, job.JID)
		require.Equal(t, queue, job.Queue)
		require.Equal(t, klass, job.Klass)
		require.Equal(t, data, string(job.Data))
		require.Equal(t, priority, job.Priority)
		require.Equal(t, retries, job.Retries)
		require.Equal(t, retries, job.Remaining)
		require.Equal(t, qless.Tags(list), job.Tags)
		require.Equal(t, queue, job.History[0].Queue)
		if delay > 0 {
			require.Equal(t, qless.StateScheduled, job.State)
			return
		}
		popped := must(e.Queue(queue).Pop(t.Context(), 1))(t)
		require.Len(t, popped, 1)
		require.NoError(t, popped[0].Complete(t.Context()))
		require.Equal(t, data, string(popped[0].Data))
	})
}

// recur creates a recurring job called r.
func (e *env) recur(every time.Duration, options ...qless.RecurOption) *qless.RecurringJob {
	e.T.Helper()
	jid := must(e.Queue("q").Recur(e.T.Context(), "K", raw(`{ "n": 1 }`), every, append(options, qless.JID("r"))...))(e.T)
	return e.recurring(jid)
}

func (e *env) recurring(jid string) *qless.RecurringJob {
	e.T.Helper()
	return must(e.RecurringJob(e.T.Context(), jid))(e.T)
}

// updates reads a recurring job, and returns a function that changes a copy and writes the changes.
func (e *env) updates(jid string) func(change func(r *qless.RecurringJob)) error {
	e.T.Helper()
	read := e.recurring(jid)
	return func(change func(r *qless.RecurringJob)) error {
		changed := *read
		change(&changed)
		return changed.Update(e.T.Context())
	}
}

// A recurring job that its queue has lost recurs again.
func TestRecurOfARecurringJobThatIsNeverDueStartsOver(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	e.Pop("q")
	require.NoError(t, e.Redis.ZRem(t.Context(), "ql:q:q-recur", "r").Err())
	e.recur(time.Hour)
	require.Equal(t, "r-2", e.Pop("q").JID)
}

// Clients in other languages change the time of the next recurrence with each call.
func TestTheCommandRecurOfOtherClientsStartsOver(t *testing.T) {
	e := newEnv(t)
	stock := func() { e.run("recur", "q", "r", "K", "{}", "interval", "3600", "60") }
	stock()
	e.Clock.Advance(59 * time.Second)
	stock()
	e.Clock.Advance(59 * time.Second)
	require.Empty(t, e.Pops("q", 5))
	e.Clock.Advance(time.Second)
	require.Equal(t, "r-1", e.Pop("q").JID)
}

func TestManyNumbersThatAreTakenAreSkippedInLongerSteps(t *testing.T) {
	e := newEnv(t)
	var jobs []qless.JobSpec
	for i := range 1000 {
		jid := fmt.Sprintf("r-%d", i+1)
		jobs = append(jobs, spec(qless.JID(jid)))
	}
	e.puts("p", jobs...)
	e.recur(time.Hour)
	commands := e.Server.Commands(t, func() { require.Len(t, e.Pops("q", 5), 1) })
	require.Less(t, len(commands), 1000, "not every number is looked at")
}

func TestACleanupDeletesCompleteJobsOnly(t *testing.T) {
	e := newEnv(t)
	e.Set("jobs-history-count", 0)
	e.Put("q", qless.JID("waiting"))
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:completed", zmember(1, "waiting")).Err())
	require.NoError(t, e.start("q", qless.JID("done"), qless.Priority(1)).Complete(t.Context()))
	require.Equal(t, qless.StateWaiting, e.Read("waiting").State)
	require.Empty(t, e.all(e.inspect().Completed()))
}

func TestRecurringJobMovedToItsOwnQueueMakesItKnown(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	e.run("queue.forget", "q")
	require.NoError(t, errOf(e.Do(t.Context(), "recur.update", "r", "queue", "q")))
	require.Len(t, must(e.Queues(t.Context()))(t), 1)
}
