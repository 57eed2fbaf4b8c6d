package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// redis runs commands, one per line, with keys without prefix.
func (e *env) redis(lines string) {
	e.t.Helper()
	for line := range strings.Lines(lines) {
		var words []any
		for _, word := range strings.Fields(line) {
			words = append(words, strings.ReplaceAll(word, "_", " "))
		}
		words[1] = "ql:" + words[1].(string)
		e.do(e.rdb.Do(e.ctx, words...).Err())
	}
}

// A damage is a manual change to the namespace created by furnish.
type damage struct {
	name  string
	do    string // commands
	found string // the findings, each a kind and a key, and perhaps a member
	left  string // keys that still differ after the repair
}

var damages = []damage{
	{"a waiting job is lost", "ZREM q:q-work waiting", "lost j:waiting", ""},
	{"a running job is lost", "ZREM q:q-locks running", "lost j:running", ""},
	{"a complete job is lost", "ZREM completed complete", "lost j:complete", ""},
	{"a job that depends on others is lost", "ZREM q:q-depends depends", "lost j:depends", ""},
	{"a failed job is lost", "LREM f:group 0 other", "lost j:other", ""},
	{"a recurring job is lost", "ZREM q:q-recur recurring", "lost r:recurring", "q:q-recur"},
	{"a parked job is lost", "ZREM q:limited-scheduled parked", "lost j:parked", "q:limited-scheduled"},

	{"a job is in two sets", "ZADD q:q-work 1 running", "misplaced q:q-work running", ""},
	{"a job is in two queues", "ZADD q:else-work 1 waiting", "misplaced q:else-work waiting, queue_unlisted q:else-work", ""},
	{"a job is complete and waits", "ZADD q:q-scheduled 1 complete", "misplaced q:q-scheduled complete", ""},
	{"a job is in two groups", "LPUSH f:else failed\nSADD failures else", "misplaced f:else failed", ""},
	{"a job is in a group twice", "RPUSH f:group other", "duplicate f:group other", "f:group"},
	{
		"a job is in the wrong set", "ZREM q:q-work waiting\nZADD q:q-locks 1 waiting",
		"lost j:waiting, misplaced q:q-locks waiting", "",
	},
	{"a recurring job is in two queues", "ZADD q:else-recur 1 recurring", "misplaced q:else-recur recurring, queue_unlisted q:else-recur", ""},

	{"a queue has a ghost", "ZADD q:q-work 1 ghost", "ghost q:q-work ghost", ""},
	{"locks have a ghost", "ZADD q:q-locks 1 ghost", "ghost q:q-locks ghost", ""},
	{"scheduled jobs have a ghost", "ZADD q:q-scheduled 9e9 ghost", "ghost q:q-scheduled ghost", ""},
	{"jobs that depend have a ghost", "ZADD q:q-depends 1 ghost", "ghost q:q-depends ghost", ""},
	{"recurring jobs have a ghost", "ZADD q:q-recur 9e9 ghost", "ghost q:q-recur ghost", ""},
	{"completed jobs have a ghost", "ZADD completed 1 ghost", "ghost completed ghost", ""},
	{"a group has a ghost", "RPUSH f:group ghost", "ghost f:group ghost", ""},
	{"a group has only a ghost", "RPUSH f:ghosts ghost\nSADD failures ghosts", "ghost f:ghosts ghost", ""},
	{"a tag has a ghost", "ZADD t:red 1 ghost\nZINCRBY tags 1 red", "ghost t:red ghost", ""},
	{"a history is left", "RPUSH j:ghost-history x", "orphan j:ghost-history", ""},

	{"a lock never ends", "ZADD q:q-locks inf running", "lock_differs j:running", ""},
	{"a worker has a lock that never ends", "ZADD w:w1:jobs 1e300 running", "lock_differs j:running", ""},
	{"a recurring job is never due", "ZADD q:q-recur inf recurring", "time_impossible q:q-recur recurring", "q:q-recur"},
	{"a parked job is never due", "ZADD q:limited-scheduled 1e300 parked", "time_impossible q:limited-scheduled parked", "q:limited-scheduled"},
	{"a queue is not listed", "ZREM queues q", "queue_unlisted q:q-work", "queues"},
	{"a queue whose jobs all run is not listed", "ZREM queues limited", "queue_unlisted q:limited-locks", "queues"},
	{"a lock ends too early", "ZADD q:q-locks 1 running", "lock_differs j:running", ""},
	{"a worker knows another end", "ZADD w:w1:jobs 1 running", "lock_differs j:running", ""},
	{"a job says another end", "HSET j:running expires 1", "lock_differs j:running", ""},
	{"a worker does not know its job", "ZREM w:w1:jobs running", "lock_unlisted j:running", ""},
	{"a worker has a job that it has not", "ZADD w:w1:jobs 9e9 waiting", "lock_left w:w1:jobs waiting", ""},
	{"a worker has a ghost", "ZADD w:w2:jobs 9e9 ghost", "lock_left w:w2:jobs ghost", ""},

	{
		"a job is not known to the one that it waits for", "SREM j:waiting-dependents depends",
		"dependency_one_sided j:depends-dependencies waiting", "",
	},
	{
		"a job does not know that it waits", "SREM j:depends-dependencies waiting",
		"dependency_one_sided j:waiting-dependents depends", "",
	},
	{
		"a job that waits for several knows none", "DEL j:depends-dependencies",
		"dependency_one_sided j:waiting-dependents depends, dependency_one_sided j:running-dependents depends, " +
			"waits_for_nothing j:depends", "",
	},
	{
		"a batch is not known to be open", "DEL j:x:open-dependents",
		"dependency_one_sided j:batch-dependencies x:open", "",
	},
	{
		"a job waits for a complete one", "SADD j:depends-dependencies complete\nSADD j:complete-dependents depends",
		"dependency_over j:depends-dependencies complete, dependency_over j:complete-dependents depends", "",
	},
	{
		"a job waits for one that is gone", "SADD j:depends-dependencies ghost",
		"dependency_over j:depends-dependencies ghost", "",
	},
	{
		"a job that is gone waits", "SADD j:waiting-dependents ghost",
		"dependency_left j:waiting-dependents ghost", "",
	},
	{
		"a job that waits for nothing has dependencies", "SADD j:waiting-dependencies running",
		"dependency_left j:waiting-dependencies running", "",
	},

	{"a tag does not know a job", "ZREM t:red waiting\nZINCRBY tags -1 red", "tag_lacking j:waiting", "t:red"},
	{"a tag has another job", "ZADD t:red 1 scheduled\nZINCRBY tags 1 red", "tag_extra t:red scheduled", ""},
	{"a tag is counted wrongly", "ZINCRBY tags 5 red", "tag_count tags red", ""},
	{"a tag is not counted", "ZREM tags blue", "tag_count tags blue", ""},
	{"a tag is counted that no job has", "ZADD tags 1 none", "tag_count tags none", ""},
	{"a group is not listed", "SREM failures group", "group_unlisted f:group", ""},
	{"a group is empty", "SADD failures empty", "group_empty failures empty", ""},

	{"a lifetime is not noted", "ZREM x:until waiting", "deadline_lacking j:waiting", ""},
	{"a lifetime is noted too late", "ZADD x:until 9e9 waiting", "deadline_lacking j:waiting", ""},
	{"a claim is gone", `DEL x:unique:["key"]`, "claim_lacking j:unique", ""},
	{"a claim names another job", `SET x:unique:["key"] 0_waiting`, `claim_left x:unique:["key"], claim_lacking j:unique`, ""},
	{"a claim is no claim", `SET x:unique:["key"] garbage`, `claim_left x:unique:["key"], claim_lacking j:unique`, ""},
	{"a slot is gone", "DEL x:limit:limit:held", "slot_lacking j:slot", ""},
	{"a lifetime is left", "ZADD x:until 9e9 scheduled", "deadline_left x:until scheduled", ""},
	{"a lifetime of a ghost is left", "ZADD x:until 9e9 ghost", "deadline_left x:until ghost", ""},
	{"a limit does not know a parked job", "DEL x:limit:limit:wait", "parked_lacking j:parked", "x:limit:limit:wait"},
	{"a limit has a job that is not parked", "ZADD x:limit:limit:wait 1 waiting", "parked_left x:limit:limit:wait waiting", ""},
	{"a slot is left", "ZADD x:limit:limit:held 9e9 waiting", "slot_left x:limit:limit:held waiting", ""},
	{"a slot of a ghost is left", "ZADD x:limit:limit:held 1 ghost", "slot_left x:limit:limit:held ghost", ""},
	{"a claim of a ghost is left", "SET x:unique:a 0_ghost", "claim_left x:unique:a", ""},
	{"a claim of a job without a key is left", "SET x:unique:a 0_waiting", "claim_left x:unique:a", ""},
	{"a claim is for a time that does not end", "SET x:unique:a 9e9_unique", "claim_left x:unique:a", ""},
	{"a tracked job is gone", "ZADD tracked 1 ghost", "tracked_gone tracked ghost", ""},
	{"a failed job is filed that is not", "ZADD failed-jobs-list 1 waiting", "filed_left failed-jobs-list waiting", ""},
	{"a schedule is registered without anything", "ZADD x:schedule-ids 0 s", "schedule_empty x:schedule-ids s", ""},

	{
		"an idle worker is gone", "SADD x:idle gone\nZADD x:idle:q 1 gone\nSET x:due:q 9e9_gone EX 1000",
		"idle_dead x:idle gone, idle_dead x:idle:q gone, claim_dead x:due:q", "",
	},
	{
		"idle workers of a list are gone", "ZADD x:list:l 1 gone\nZADD x:idle:q 1 \x01list",
		"idle_dead x:list:l gone, idle_dead x:idle:q \x01list", "",
	},
	{"what a job follows lasts for ever", "SET x:before:a unique", "no_expiry x:before:a", "x:before:a"},
	{"refused puts are noted for ever", "ZADD x:refused 1 a", "no_expiry x:refused", "x:refused"},
	{"what was looked at lasts for ever", "SET x:looked:q 1", "no_expiry x:looked:q", "x:looked:q"},
	{"a claim of a queue lasts for ever", "SET x:due:q 9e9_w1", "claim_dead x:due:q", ""},
	{"empty queues last for ever", "HSET x:empty q 1", "no_expiry x:empty", "x:empty"},
	{"filled queues last for ever", "SADD x:filled q", "no_expiry x:filled", "x:filled"},

	{"a count is no number", "HSET s:stats:1:q retries many", "stats_damaged s:stats:1:q retries", ""},
	{"a count is below zero", "HSET s:stats:1:q failures -1", "stats_damaged s:stats:1:q failures", ""},
	{"a wait is no number", "HSET s:wait:1:q mean nan total 1", "stats_damaged s:wait:1:q mean", "s:wait:1:q"},
	{"a bucket is below zero", "HSET s:run:1:q m5 -2 total 1", "stats_damaged s:run:1:q m5", "s:run:1:q"},
	{"a count of expired jobs is no number", "HSET x:stats:1:q expired x", "stats_damaged x:stats:1:q expired", ""},
	{
		"rates can't be read", "HSET x:rates:60 1:q:K 1,2\nEXPIRE x:rates:60 1000",
		"rates_damaged x:rates:60 1:q:K", "",
	},
	{
		"rates are of no queue", "HSET x:rates:60 9:q:K 1,2,3|| 1:q:K 1,2,3|4:1|\nEXPIRE x:rates:60 1000",
		"rates_damaged x:rates:60 9:q:K", "x:rates:60",
	},
	{"a turn ends before it begins", "ZADD x:fair:3:fair -1 tenant", "turn_damaged x:fair:3:fair tenant", ""},
	{"a turn never ends", "ZADD x:fair:3:fair 7 tenant", "turn_damaged x:fair:3:fair tenant", ""},
	{"turns of a queue are left", "ZADD x:fair:3:q 0.1 tenant", "turn_left x:fair:3:q", ""},
	{"turns of a queue that is gone are left", "ZADD x:fair:-1.5:gone 0 tenant", "turn_left x:fair:-1.5:gone", ""},
	{"a worker is registered for ever", "SET x:worker:w 1|1|{}", "no_expiry x:worker:w", "x:worker:w"},
}

func TestDamageIsFoundAndRepaired(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			e := newEnvWith(t, nil)
			e.furnish()
			before := e.dump()
			e.redis(d.do)
			findings := e.examine()
			requireFound(t, d.found, findings)
			for _, f := range findings {
				require.True(t, f.Fixable, "%+v", f)
				require.NotContains(t, f.Sentence, "KEY")
				require.NotContains(t, f.Sentence, "MEMBER")
				require.NotContains(t, f.Sentence, "DETAILS")
			}
			damaged := e.dump()
			require.Empty(t, changed(damaged, e.dump()))
			fixed := e.fix(findings...)
			require.NotEmpty(t, fixed)
			require.Empty(t, e.examine())
			require.Empty(t, e.fix(findings...), "there is nothing to do any more")
			var left []string
			for _, key := range strings.Fields(d.left) {
				left = append(left, "ql:"+key)
			}
			after := e.dump()
			for _, key := range changed(before, after) {
				require.Contains(t, left, key, "nothing else was touched: %v, now %v", before[key], after[key])
			}
		})
	}
}

// requireFound requires findings, in any order.
func requireFound(t *testing.T, want string, findings []doctor.Reason) {
	t.Helper()
	var found []string
	for _, f := range findings {
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Code, strings.TrimPrefix(f.Key, "ql:"), f.Member)))
	}
	require.ElementsMatch(t, strings.Split(want, ", "), found, "%+v", findings)
}

// Damage that can't be repaired safely is only reported.
func TestDamageThatIsOnlyTold(t *testing.T) {
	for _, d := range []damage{
		{"a record is gone but for a field", "HDEL j:waiting state", "incomplete j:waiting", ""},
		{"a state is unknown", "HSET j:waiting state odd", "incomplete j:waiting", ""},
		{"a job has no klass", "HDEL j:waiting klass", "incomplete j:waiting", ""},
		{"nobody knows how often a job may be retried", "HDEL j:waiting remaining", "incomplete j:waiting", ""},
		{"a recurring job has no klass", "HDEL r:recurring klass", "incomplete r:recurring", ""},
		{"a recurring job has a backlog below zero", "HSET r:recurring backlog -1", "incomplete r:recurring", ""},
		{"a job is due before all time", "ZADD q:q-scheduled -1 scheduled", "time_impossible q:q-scheduled scheduled", ""},
		{"a failed job has no queue", "HDEL j:failed queue", "incomplete j:failed", ""},
		{"options can't be read", "HSET j:scheduled x:o garbage", "options_damaged j:scheduled", ""},
		{"a job is never due", "ZADD q:q-scheduled inf scheduled", "time_impossible q:q-scheduled scheduled", ""},
		{"a job has no queue", "HDEL j:waiting queue", "incomplete j:waiting", ""},
		{"a failure has no group", "HSET j:failed failure {}", "incomplete j:failed", ""},
		{"a recurring job has no interval", "HSET r:recurring interval 0", "incomplete r:recurring", ""},
		{"a record has another jid", "HSET j:waiting jid other", "incomplete j:waiting", ""},
		{"a history is gone", "DEL j:waiting-history", "no_history j:waiting", ""},
		{"a running job has no worker", "HSET j:running worker", "no_worker j:running, lock_left w:w1:jobs running", ""},
		{"nobody knows when a job is due", "ZREM q:q-scheduled scheduled", "lost j:scheduled", ""},
		{"a definition is damaged", "HSET x:limits odd nonsense", "limit_damaged x:limits odd", ""},
		{"a key is unknown", "SET x:odd 1", "unknown_key x:odd", ""},
		{"a key has another type", "SET completed 1", "damaged completed, lost j:complete", ""},
		{"a queue has another type", "SET q:else-work 1", "damaged q:else-work", ""},
		{"statistics have another type", "SET s:wait:1:q 1", "damaged s:wait:1:q", ""},
		{"rates have another type", "SET x:rates:60 1 EX 1000", "damaged x:rates:60", ""},
		{"turns have another type", "SET x:fair:0:q 1", "damaged x:fair:0:q", ""},
		{"a setting is unknown", "HSET config odd 1", "setting_unknown config odd", ""},
		{"a setting means nothing", "HSET config heartbeat x", "setting_invalid config heartbeat", ""},
		{"a lock that ends at once", "HSET config q-heartbeat 0", "setting_dangerous config q-heartbeat", ""},
		{"a rate that is none", "HSET config q-max-rate 1", "setting_invalid config q-max-rate", ""},
		{"a lock that is short", "HSET config heartbeat 0.5", "setting_dangerous config heartbeat", ""},
		{"workers that are forgotten", "HSET config max-worker-age 10", "setting_dangerous config max-worker-age", ""},
		{"no complete jobs", "HSET config jobs-history 0", "setting_dangerous config jobs-history", ""},
		{"a clock that is ahead", "ZADD workers 9e9 py", "clock_skew workers py", ""},
	} {
		t.Run(d.name, func(t *testing.T) {
			e := newEnvWith(t, nil)
			e.furnish()
			if strings.HasPrefix(d.do, "SET completed") {
				e.do(e.rdb.Del(t.Context(), "ql:completed").Err())
			}
			if d.do == "HSET j:running worker" {
				e.do(e.rdb.HSet(t.Context(), "ql:j:running", "worker", "").Err())
			} else {
				e.redis(d.do)
			}
			before := e.dump()
			findings := e.examine()
			requireFound(t, d.found, findings)
			told := slices.DeleteFunc(findings, func(f doctor.Reason) bool {
				return f.Fixable && f.Code != doctor.ReasonLost
			})
			for i := range told {
				told[i].Fixable = d.found != "damaged completed, lost j:complete"
			}
			require.Empty(t, e.fix(told...))
			require.Empty(t, changed(before, e.dump()))
		})
	}
}

// A job with only ended dependencies can run.
func TestAJobThatWaitsForNothingGoesOn(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "parent")
	e.put("q", "free", qless.DependsOn{"parent"})
	e.put("q", "late", qless.DependsOn{"parent"}, qless.Delay(time.Hour))
	e.redis("DEL j:parent-dependents j:free-dependencies\nDEL j:parent-dependents\nDEL j:free-dependencies\nDEL j:late-dependencies")
	findings := e.examine()
	requireFound(t, "waits_for_nothing j:free, waits_for_nothing j:late", findings)
	require.Len(t, e.fix(findings...), 2)
	counts := must(e.Queue("q").Counts(t.Context()))(e.t)
	require.Equal(t, []int{2, 1, 0}, []int{counts.Waiting, counts.Scheduled, counts.Depends})
	require.Empty(t, e.examine())

	e.put("q", "over", qless.DependsOn{"parent"})
	e.redis("DEL j:parent\nDEL j:parent-history\nZREM q:q-work parent")
	findings = e.examine()
	requireFound(t, "dependency_over j:parent-dependents over, dependency_over j:over-dependencies parent", findings)
	require.Len(t, e.fix(findings...), 1, "the second one has nothing to do")
	require.Empty(t, e.examine())
}

// A job with unreadable options runs without them.
func TestAJobWithDamagedOptionsCanBeCompleted(t *testing.T) {
	for _, options := range []string{"garbage", "r", "r|", "crutd|[]"} {
		e := newEnvWith(t, nil)
		e.put("q", "a")
		e.do(e.rdb.HSet(t.Context(), "ql:j:a", "x:o", options).Err())
		e.do(e.pop("q", 1)[0].Complete(t.Context()))
	}
}

func TestARecurringJobWithADamagedCountGoesOn(t *testing.T) {
	for _, count := range []string{"1e300", "-7", "nan", "1.5"} {
		e := newEnv(t)
		e.do(errOf(e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.JID("r"))))
		e.do(e.rdb.HSet(t.Context(), "ql:r:r", "count", count).Err())
		e.clock.Advance(time.Hour)
		require.Len(t, e.pop("q", 2), 2)
	}
}

// A key of a wrong type does not stop the repair of others.
func TestAKeyOfAWrongTypeStopsNoRepair(t *testing.T) {
	e := newEnvWith(t, nil)
	e.furnish()
	e.redis("DEL q:q-depends\nSET q:q-depends 1\nZREM q:q-work waiting\nZREM completed complete")
	findings := e.examine()
	requireFound(t, "damaged q:q-depends, lost j:depends, lost j:batch, lost j:waiting, lost j:complete", findings)
	require.Len(t, e.fix(findings...), 2)
	requireFound(t, "damaged q:q-depends, lost j:depends, lost j:batch", e.examine())
}

// A job put again since the exam is not changed.
func TestWhatHasChangedSinceIsLeftAlone(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "a")
	e.redis("ZREM q:q-work a\nZADD q:q-scheduled 1 b")
	findings := e.examine()
	requireFound(t, "lost j:a, ghost q:q-scheduled b", findings)
	e.put("q", "a")
	e.put("q", "b", qless.Delay(time.Hour))
	before := e.dump()
	require.Empty(t, e.fix(findings...))
	require.Empty(t, changed(before, e.dump()))
}
