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
	"github.com/qless/qless-go/tests/scripts"
)

// FuzzPut and the model have the other fields.
func TestAJobThatIsPutReadsBack(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.Regexp(t, "^[0-9a-f]{32}$", jid)
	require.NotEqual(t, jid, e.Put("q"))
	require.Equal(t, []qless.HistoryEntry{{When: noon.Local(), What: "put", Queue: "q"}}, e.Read(jid).History)
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

// A remembered put is not repeated, even if the job is gone, until the server forgets it.
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

// A wait begins before the job exists, or for a job given up by an outbox.
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

// The methods of putOnEach are tests on a real server, and on miniredis.
type putOnEach struct{}

func TestPutsOnEachServer(t *testing.T) { runEach(t, putOnEach{}) }

func (putOnEach) JobsOfAPutManyThatExistDoNotStopTheOthers(t *testing.T, e *env) {
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
	together(50, func(int) { assert.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID("j")))) })
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

// A recurring job lost by its queue recurs again.
func TestRecurOfARecurringJobThatIsNeverDueStartsOver(t *testing.T) {
	e := newEnv(t)
	e.recur(time.Hour)
	e.Pop("q")
	require.NoError(t, e.Redis.ZRem(t.Context(), "ql:q:q-recur", "r").Err())
	e.recur(time.Hour)
	require.Equal(t, "r-2", e.Pop("q").JID)
}

// Classic clients change the time of the next recurrence with each call.
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

// held requires that a put with the key is refused because a job holds it, and writes nothing but a
// note that a scheduled one does.
func (e *env) held(jid string, unique qless.UniqueOption) {
	e.T.Helper()
	e.Unchanged(func() {
		found, err := e.Queue("others").Put(e.T.Context(), "K", nil, unique, qless.Tags{"t"})
		own := requireCode(e.T, qless.ErrExists, err)
		require.Equal(e.T, jid, found)
		require.Equal(e.T, jid, own.JID)
		require.Contains(e.T, own.Message, "holds the unique key")
		require.NoError(e.T, e.Redis.Del(e.T.Context(), "ql:x:refused").Err())
	})
}

// holder requires that a job, or none if jid is empty, holds the key k.
func (e *env) holder(jid string) {
	e.T.Helper()
	require.Equal(e.T, jid, must(e.Holder(e.T.Context(), "k"))(e.T))
}

// Leftovers of another script hold no key.
func TestUniqueKeyOfAJobThatStockScriptsEndedIsFree(t *testing.T) {
	for what, left := range map[string][]any{
		"complete": {"hset", "ql:j:j", "state", "complete"},
		"failed":   {"hset", "ql:j:j", "state", "failed"},
		"canceled": {"del", "ql:j:j"},
		"another":  {"hset", "ql:j:j", "x:o", `u|{"u":{"k":"other"}}`},
		"damaged":  {"hset", "ql:j:j", "x:o", `u|{"u":`},
		"text":     {"set", `ql:x:unique:["k"]`, "nonsense"},
		"list":     {"lpush", `ql:x:unique:["k"]`, "nonsense"},
	} {
		runOnEach(t, what, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Unique("k"))
			if what == "list" {
				require.NoError(t, e.Redis.Del(t.Context(), `ql:x:unique:["k"]`).Err())
			}
			require.NoError(t, e.Redis.Do(t.Context(), left...).Err())
			e.holder("")
			e.Put("q", qless.JID("new"), qless.Unique("k"))
			e.holder("new")
		})
	}
}

// Of failed jobs that had the same key one after another, the job that failed first takes the key
// again. The model has the ways to unfail a group.
func (putOnEach) TheFirstOfManyUnfailedJobsClaimsTheUniqueKey(t *testing.T, e *env) {
	for _, jid := range []string{"z", "m", "a"} {
		e.fail("q", "g", qless.JID(jid), qless.Unique("k"))
		e.Clock.Advance(time.Second)
	}
	require.NoError(t, errOf(e.inspect().JIDs("z", "m", "a").Unfail(e.T.Context())))
	e.holder("z")
	e.held("z", qless.Unique("k"))
}

func (putOnEach) UniqueKeysAmongManyPuts(t *testing.T, e *env) {
	e.Put("q", qless.JID("there"), qless.Unique("a"))
	jids, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
		spec(qless.Unique("a")),
		spec(qless.JID("b1"), qless.Unique("b"), qless.Delay(time.Minute)),
		spec(qless.Unique("b")),
		spec(qless.JID("plain")),
	})
	own := requireCode(t, qless.ErrExists, err)
	require.Equal(t, []int{0, 2}, own.Indices)
	require.Equal(t, []string{"there", "b1", "b1", "plain"}, jids)

	_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec(qless.Unique("b"))})
	require.Contains(t, err.Error(), "jobs[0]: the job holds the unique key and is scheduled")
	require.Equal(t, 2, e.Counts("q").Waiting)
}

func (putOnEach) WithoutPartsTheKlassAndTheDataAreUnique(t *testing.T, e *env) {
	put := func(klass string, data any) error {
		return errOf(e.Queue("q").Put(t.Context(), klass, data, qless.Unique()))
	}
	require.NoError(t, put("A", map[string]int{"b": 1, "a": 2}))
	requireCode(t, qless.ErrExists, put("A", map[string]int{"a": 2, "b": 1}))
	require.NoError(t, put("B", map[string]int{"a": 2, "b": 1}))
	require.NoError(t, put("A", nil))
	requireCode(t, qless.ErrExists, put("A", nil))
}

func TestAUniqueKeyHoldsInAllShards(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	queue := sharded.Queue("q")
	for i := range 20 {
		jid := must(queue.Put(t.Context(), "K", nil, qless.Unique("k", i)))(t)
		found, err := queue.Put(t.Context(), "K", nil, qless.Unique("k", i), qless.JID(fmt.Sprint("j", i)))
		requireCode(t, qless.ErrExists, err)
		require.Equal(t, jid, found)
		jids, err := queue.PutMany(t.Context(), []qless.JobSpec{spec(qless.Unique("k", i))})
		requireCode(t, qless.ErrExists, err)
		require.Equal(t, []string{jid}, jids)
		jids = must(queue.PutMany(t.Context(), []qless.JobSpec{spec(qless.Unique("k", i).Replace())}))(t)
		require.Equal(t, []string{jid}, jids)
		require.Equal(t, jid, must(sharded.Holder(t.Context(), "k", i))(t))
	}
	require.Empty(t, must(sharded.Holder(t.Context(), "free"))(t))
}

// A job put again without the option takes its key again, just as if the jobs of the call had been
// put one by one.
func TestAJobOfTheSameCallMayGetItsKeyBack(t *testing.T) {
	again := spec(qless.JID("j"))
	other := spec(qless.JID("n"), qless.Unique("k"))
	complete := func(e *env) {
		require.NoError(e.T, e.start("q", qless.JID("j"), qless.Unique("k")).Complete(e.T.Context()))
	}
	onEach(t, func(t *testing.T, e *env) {
		complete(e)
		jids, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{again, other})
		require.Equal(t, []int{1}, requireCode(t, qless.ErrExists, err).Indices)
		require.Equal(t, []string{"j", "j"}, jids)
		e.holder("j")
	})
	onEach(t, func(t *testing.T, e *env) {
		complete(e)
		e.puts("q", other, again)
		e.holder("n")
		require.NoError(t, e.Cancel(t.Context(), "n"))
		e.holder("")
	})
}

func (putOnEach) RunningJobPutAgainGetsItsKeyBeforeLaterPuts(t *testing.T, e *env) {
	require.NoError(t, e.start("q", qless.JID("old"), qless.Unique("k")).Complete(t.Context()))
	e.start("q", qless.JID("j"), qless.Unique("k").UntilStarted())
	_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
		spec(qless.JID("j")),
		spec(qless.JID("old")),
	})
	require.NoError(t, err)
	e.holder("j")
}

// again returns the option for puts that replace the holder of the key k.
func again() qless.UniqueOption { return qless.Unique("k").Replace() }

// trigger puts a job with data that replaces the holder of the key k.
func (e *env) trigger(data any, options ...qless.PutOption) string {
	e.T.Helper()
	jid := must(e.Queue("q").Put(e.T.Context(), "K", data, append([]qless.PutOption{again()}, options...)...))(e.T)
	return jid
}

// The model has all other ways for a job with a key to wait.
func TestKeepDueWithoutADelayKeepsThePlaceInTheQueue(t *testing.T) {
	for name, key := range map[string]qless.UniqueOption{
		"parked": again().KeepDue(), "after Within": again().Within(500 * time.Millisecond),
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("a"))
			e.Clock.Advance(time.Second)
			e.Put("j", qless.JID("j"), qless.Unique("k"))
			e.Clock.Advance(time.Second)
			if name == "parked" {
				require.NoError(t, e.Limit("api").Hold(t.Context(), time.Hour))
				e.Put("j", again().KeepDue(), qless.Limits{"api"})
				require.Empty(t, e.Pops("j", 1))
				require.Equal(t, "api", e.Read("j").Parked)
			}
			e.Put("q", qless.JID("b"))
			e.Clock.Advance(time.Second)
			require.Equal(t, "j", e.Put("q", key))
			require.Equal(t, []string{"a", "j", "b"}, jids(e.Pops("q", 5)))
		})
	}
}

// The model has jobs that are replaced among many puts.
func (putOnEach) AReplacedJobIsNamedTwiceByAPutMany(t *testing.T, e *env) {
	waiting := e.Put("q", again())
	by, replacing := spec(qless.JID(waiting)), spec(again())
	e.Unchanged(func() {
		requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{by, replacing})))
		_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{replacing, by})
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "is named twice")
	})
	again := e.puts("q", replacing, replacing, spec(again().KeepDue()))
	require.Equal(t, []string{waiting, waiting, waiting}, again)

	later := e.Put("q", qless.Unique("later"), qless.Delay(time.Minute))
	keeping := spec(qless.Unique("later").Replace().KeepDue(), qless.Delay(time.Hour))
	require.Equal(t, []string{later, later}, e.puts("q", keeping, keeping))
	require.WithinDuration(t, noon.Add(time.Minute), e.Read(later).Due, time.Second)
}

// A parent of another put in the same call is replaced as well.
func (putOnEach) ReplacingAJobOfTheSameCallThatOthersWaitFor(t *testing.T, e *env) {
	jids := e.puts("q",
		spec(qless.JID("parent"), qless.Unique("k"), qless.DependsOn{e.Put("x")}),
		spec(qless.JID("child"), qless.DependsOn{"parent"}, qless.OnFailureRun),
		qless.JobSpec{Klass: "K", Data: 2, Options: []qless.PutOption{again()}},
	)
	require.Equal(t, []string{"parent", "child", "parent"}, jids)
	require.Empty(t, e.Pops("q", 5))
	require.NoError(t, e.Pop("x").Complete(t.Context()))
	job := e.Pop("q")
	require.Equal(t, "2", string(job.Data))
	require.NoError(t, job.Fail(t.Context(), "g", "m"))
	require.Equal(t, "child", e.Pop("q").JID)
}

// An existing job put again by its jid, and replaced by the same call, keeps its place, too.
func TestReplacingAJobOfTheSameCallThatWasThere(t *testing.T) {
	for name, option := range map[string][]qless.PutOption{
		"with its key again": {qless.JID("j"), qless.Unique("k")},
		"without":            {qless.JID("j")},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Unique("k"))
			e.Put("q", qless.JID("child"), qless.DependsOn{"j"}, qless.OnFailureRun)
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
			require.NoError(t, e.Pop("q").Complete(t.Context()))
			e.Put("q", qless.JID("second"), qless.DependsOn{"j"}, qless.OnFailureFail)
			require.Equal(t, qless.StateFailed, e.Read("second").State)
			ids := e.puts("q",
				qless.JobSpec{Klass: "K", Options: option},
				spec(qless.JID("third"), qless.DependsOn{"j"}, qless.OnFailureRun),
				qless.JobSpec{Klass: "K", Data: 2, Options: []qless.PutOption{again()}},
			)
			require.Equal(t, []string{"j", "third", "j"}, ids)
			e.holder("j")
			job := e.Pop("q")
			require.Equal(t, "2", string(job.Data))
			require.NoError(t, job.Fail(t.Context(), "g", "m"))
			require.Equal(t, "third", e.Pop("q").JID)
		})
	}
}

func TestPutsThatReplaceAreSentAgain(t *testing.T) {
	puts := map[string]func(client *qless.Client) (string, error){
		"put": func(client *qless.Client) (string, error) {
			return client.Queue("q").Put(t.Context(), "K", 2, again(), qless.Delay(time.Hour))
		},
		"put.many": func(client *qless.Client) (string, error) {
			jids, err := client.Queue("q").PutMany(t.Context(), []qless.JobSpec{
				{Klass: "K", Data: 1, Options: []qless.PutOption{again()}},
				{Klass: "K", Data: 2, Options: []qless.PutOption{again(), qless.Delay(time.Hour)}},
			})
			return jids[len(jids)-1], err
		},
	}
	for where, c := range cuts {
		for command, put := range puts {
			for _, state := range []qless.State{"", qless.StateWaiting, qless.StateRunning} {
				t.Run(fmt.Sprint(command, ", ", where, ", ", state), func(t *testing.T) {
					e, proxy, client := proxied(t)
					jid := ""
					if state != "" {
						jid = e.trigger(1)
					}
					if state == qless.StateRunning {
						e.Pop("q")
						jid = ""
					}
					c.cut(proxy, scripts.Sent(command))
					found := must(put(client))(t)
					require.Equal(t, 2, seen(proxy, command))
					if jid != "" {
						require.Equal(t, jid, found)
						require.Equal(t, []string{"put", "put"}, whats(e.Read(found).History))
					} else {
						require.Equal(t, []string{"put"}, whats(e.Read(found).History))
					}
					require.Equal(t, "2", string(e.Read(found).Data))
					e.holder(found)
					counts := e.Counts("q")
					require.Equal(t, 1, counts.Scheduled+counts.Depends+counts.Waiting)
				})
			}
		}
	}
}

// A put that replaces a job reads it, with its dependencies, and removes it from its queue. A put
// that follows a running job reads that job, links both, marks the running job, and notes which job
// it follows.
func TestCommandsThatReplacingCosts(t *testing.T) {
	e := newEnv(t)
	put := func(jid string, options ...any) int {
		return e.cost(func() {
			e.run("put", append([]any{"w1", "q", jid, "K", "{}", "0", "new", "1"}, options...)...)
		})
	}
	trigger := func(jid string) int { return put(jid, "o", `u|{"u":{"k":"k"}}`, "replace", "delay") }
	put("first") // the queue is new
	plain := put("a")
	require.Equal(t, plain+3, trigger("b"), "no job holds the key")
	require.Equal(t, plain+10, trigger("c"), "a waiting job does")
	e.Pops("q", 3)
	require.Equal(t, plain+13, trigger("d"), "a running job does")
}

// The followed job has the key again, and no other run overlaps. The model has the other ends.
func (putOnEach) TheKeyOfAFollowerThatAnotherScriptCancels(t *testing.T, e *env) {
	first := e.trigger(1, qless.LockTime(time.Hour))
	running := e.Pop("q")
	second := e.trigger(2)
	require.NotEqual(t, first, second)
	for _, command := range [][]any{
		{"del", "ql:j:" + second, "ql:j:" + second + "-history", "ql:j:" + second + "-dependencies"},
		{"srem", "ql:j:" + first + "-dependents", second}, {"zrem", "ql:q:q-depends", second},
	} {
		require.NoError(t, e.Redis.Do(t.Context(), command...).Err())
	}
	e.held(first, qless.Unique("k"))
	third := e.trigger(3)
	require.NotContains(t, []string{first, second}, third)
	require.Empty(t, e.Pops("q", 5), "they don't overlap")
	require.NoError(t, running.Complete(t.Context()))
	last := e.Pop("q")
	require.Equal(t, third, last.JID)
	require.NoError(t, last.Complete(t.Context()))
	e.holder("")
}
