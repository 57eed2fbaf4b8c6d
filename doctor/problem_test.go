package doctor

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// codes returns the codes of the problems of an overview, in order. Those of urgent problems end in
// an exclamation mark.
func codes(o *Status) string {
	var all []string
	for _, p := range o.problems(5 * time.Minute) {
		code := string(p.Code)
		if p.Urgent() {
			code += "!"
		}
		all = append(all, code)
	}
	return strings.Join(all, " ")
}

// A user may lack permission for CONFIG.
func TestWhetherAServerKeepsAnythingIsSeenByINFO(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, test := range []struct {
		info, config map[string]string
		want         bool
	}{
		{map[string]string{"aof_enabled": "1"}, map[string]string{"save": ""}, false},
		{map[string]string{"aof_enabled": "0"}, map[string]string{"save": ""}, true},
		{map[string]string{"aof_enabled": "0"}, map[string]string{"save": "60 1"}, false},
		{map[string]string{"aof_enabled": "0"}, nil, false},
		{map[string]string{
			"aof_enabled": "0", "rdb_changes_since_last_save": "9", "rdb_last_save_time": "999910000",
		}, nil, true},
		{map[string]string{
			"aof_enabled": "0", "rdb_changes_since_last_save": "9", "rdb_last_save_time": "999990000",
		}, nil, false},
		{map[string]string{
			"aof_enabled": "0", "rdb_changes_since_last_save": "0", "rdb_last_save_time": "999910000",
		}, nil, false},
		{nil, nil, false},
	} {
		require.Equal(t, test.want, keepsNothing(test.info, test.config, now), "%v %v", test.info, test.config)
	}
}

func queueOf(counts qless.QueueCounts, oldest time.Duration) QueueStatus {
	counts.Name = "mail"
	return QueueStatus{
		QueueOverview: inspect.QueueOverview{QueueCounts: counts, Oldest: oldest}, Workers: 1,
	}
}

// spread returns a limit of one job a second with a number of waiting jobs.
func spread(parked int) []inspect.LimitInfo {
	return []inspect.LimitInfo{{LimitOverview: inspect.LimitOverview{
		Name: "shop", Parked: parked, Config: qless.LimitConfig{Rate: 1, Per: time.Second},
	}}}
}

func TestEachProblemOfAQueue(t *testing.T) {
	waiting := qless.QueueCounts{Waiting: 3}
	noWorkers := func(o *Status) { o.Queues[0].Workers = 0 }
	allIdle := func(o *Status) { o.Queues[0].Workers, o.Queues[0].idle = 0, 1 }
	for _, test := range []struct {
		want   string
		oldest time.Duration
		counts qless.QueueCounts
		change func(*Status)
	}{
		{"", time.Minute, waiting, nil},
		{"", 0, qless.QueueCounts{Paused: true}, nil},
		{"old!", 5 * time.Minute, waiting, nil},
		{"paused", time.Hour, qless.QueueCounts{Waiting: 1, Paused: true}, nil},
		{"no_workers!", time.Minute, waiting, noWorkers},
		{"", time.Minute - 1, waiting, noWorkers},
		{"no_workers!", time.Minute, waiting, func(o *Status) {
			o.Queues[0].Workers, o.Workers.Gone = 0, 2 // the dead do no work
		}},
		{"workers_paused", time.Minute, waiting, allIdle},
		{"", time.Minute - 1, waiting, allIdle}, // a deploy
		// The worker that runs a job has died.
		{"no_workers!", time.Minute, qless.QueueCounts{Waiting: 1, Running: 1}, noWorkers},
		{"max_rate", time.Minute, waiting, func(o *Status) { o.Queues[0].settings.NextStart = time.Now() }},
		{"no_workers!", time.Minute, qless.QueueCounts{Recurring: 1}, noWorkers},
		{"no_handler!", 0, qless.QueueCounts{Scheduled: 1}, func(o *Status) { o.Queues[0].unhandled = "Send" }},
		{"refused!", 0, waiting, func(o *Status) { o.Refuses = misconf }},
		{"damaged!", -1, qless.QueueCounts{Waiting: -1}, func(o *Status) {
			o.Damaged = []inspect.DamagedKey{{Key: "ql:q:mail-work", Kind: "string"}}
		}},
		{"", 0, waiting, func(o *Status) { o.Memory = inspect.Memory{Used: 79, Max: 100} }},
		{"", 0, waiting, func(o *Status) { o.Memory = inspect.Memory{Used: 200} }},
		{"memory_low", 0, waiting, func(o *Status) { o.Memory = inspect.Memory{Used: 80, Max: 100} }},
		{"memory_full!", 0, waiting, func(o *Status) { o.Memory = inspect.Memory{Used: 100, Max: 100} }},
		{"memory_full! evicts", 0, waiting, func(o *Status) {
			o.Memory = inspect.Memory{Used: 100, Max: 100, Policy: "allkeys-lru"}
		}},
		{"evicts", 0, waiting, func(o *Status) {
			o.Memory = inspect.Memory{Used: 1, Max: 100, Policy: "allkeys-lru"}
		}},
		{"", time.Second, waiting, func(o *Status) { o.Queues[0].Workers, o.Queues[0].silent = 0, 1 }},
		{"", time.Second, qless.QueueCounts{Waiting: 1, Running: 1}, noWorkers},
		{"max_concurrency", time.Second, qless.QueueCounts{Waiting: 1, Running: 2}, func(o *Status) {
			o.Queues[0].MaxConcurrency = 2
		}},
		{"max_concurrency!", time.Hour, qless.QueueCounts{Waiting: 1, Running: 2}, func(o *Status) {
			o.Queues[0].MaxConcurrency = 2
		}},
		{"stalled!", 0, qless.QueueCounts{Stalled: 1}, nil},
		{"stalled!", time.Hour, qless.QueueCounts{Waiting: 1, Stalled: 1}, nil},
		{"no_workers!", time.Hour, qless.QueueCounts{Waiting: 1, Stalled: 1}, noWorkers},
		{"failed", 0, waiting, func(o *Status) {
			o.Failures = []Group{{"timeout", 100}}
			o.Queues[0].Rates, o.failing = Throughput{Completed: 8, Failed: 0.2}, "timeout"
		}},
		{"failing", 0, waiting, func(o *Status) {
			o.Failures = []Group{{"timeout", 100}}
			o.Queues[0].Rates = Throughput{Completed: 8, Failed: 2}
		}},
		{"failing", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Completed: 8, Failed: 2} }},
		{"failing", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Failed: 2, Retried: 8} }},
		{"retrying", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Completed: 8, Retried: 9} }},
		{"", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Completed: 9, Retried: 8} }},
		{"", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Retried: 0.5} }},
		{"", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Completed: 98, Failed: 2} }},
		{"", 0, waiting, func(o *Status) { o.Queues[0].Rates = Throughput{Failed: 0.5} }},
		{"limit_full", 0, waiting, func(o *Status) {
			o.FullLimits = []inspect.LimitInfo{{
				LimitOverview: inspect.LimitOverview{Name: "shop", Parked: 2}, HeldUntil: time.Now(),
			}}
		}},
		{"", 0, waiting, func(o *Status) { o.FullLimits = spread(300) }},
		{"limit_full", 0, waiting, func(o *Status) { o.FullLimits = spread(301) }},
		{"limit_full", 0, waiting, func(o *Status) {
			o.FullLimits = spread(1)
			o.FullLimits[0].Config.Concurrency, o.FullLimits[0].Used = 2, 2
		}},
		{"limit_full", 0, waiting, func(o *Status) {
			o.FullLimits = spread(1)
			o.FullLimits[0].HeldUntil = time.Now()
		}},
		{"failed", 0, waiting, func(o *Status) { o.Failures = []Group{{"a", 99}, {"b", 1}} }},
		{"", 0, waiting, func(o *Status) { o.Failures = []Group{{"a", 99}} }},
		{"schedule_missed!", 0, waiting, func(o *Status) {
			o.found = []Reason{ofSchedule(&inspect.ScheduleInfo{ID: "nightly", Overdue: 2})}
		}},
		{"", 0, waiting, func(o *Status) { o.Outboxes = []Outbox{{Rows: 9, Oldest: time.Second}} }},
		{"outbox!", 0, waiting, func(o *Status) { o.Outboxes = []Outbox{{Rows: 9, Oldest: 2 * time.Hour}} }},
		{"outbox", 0, waiting, func(o *Status) { o.Outboxes = []Outbox{{Problems: map[string]int{"parent": 2}}} }},
		{"outbox!", 0, waiting, func(o *Status) {
			o.asOf, o.Outboxes = time.Unix(1000, 0), []Outbox{{Reported: time.Unix(500, 0)}}
		}},
	} {
		o := &Status{Queues: []QueueStatus{queueOf(test.counts, test.oldest)}}
		if test.change != nil {
			test.change(o)
		}
		require.Equal(t, test.want, codes(o), "%+v", test)
	}
}

func TestUrgentProblemsComeFirstThenTheGravest(t *testing.T) {
	paused := queueOf(qless.QueueCounts{Waiting: 1, Paused: true}, 24*time.Hour)
	late := queueOf(qless.QueueCounts{Waiting: 1}, time.Hour)
	later := queueOf(qless.QueueCounts{Waiting: 1}, 2*time.Hour)
	later.Name = "later"
	dead := queueOf(qless.QueueCounts{Waiting: 1, Stalled: 1}, time.Hour)
	o := &Status{Queues: []QueueStatus{paused, late, later, dead}}
	require.Equal(t, "stalled! old! paused", codes(o))
	found := o.problems(time.Minute)
	require.Equal(t, "queue mail has 1 job with an expired lock, and 1 job waits, the oldest for 1h00m: "+
		"did workers die?", found[0].Sentence)
	require.Equal(t, []string{"later", "mail"}, found[1].Queues)
}

func TestACauseThatQueuesShareIsOneProblem(t *testing.T) {
	o := &Status{Namespace: "ql:", failing: "ConnectionError"}
	for i, name := range []string{"a", "b", "c"} {
		q := queueOf(qless.QueueCounts{Waiting: i + 1}, time.Duration(i+1)*time.Hour)
		q.Name, q.Workers, q.Rates = name, 0, Throughput{Completed: 1, Failed: float64(i) + 4.4}
		o.Queues = append(o.Queues, q)
	}
	found := o.problems(time.Minute)
	require.Len(t, found, 2)
	require.Equal(t, []string{"c", "b", "a"}, found[0].Queues)
	require.Equal(t, "c", found[0].Queue)
	require.Equal(t, 6, found[0].Jobs)
	require.Equal(t, "3 queues (c, b, a) have no workers: 6 jobs wait, the oldest for 3h00m",
		found[0].Sentence)
	require.Equal(t, "3 queues (c, b, a) fail more than 10 % of their jobs, 16 a minute, "+
		"most in ConnectionError", found[1].Sentence)
	require.Equal(t, "qless failed show ConnectionError", found[1].Command)
	require.True(t, found[1].Urgent(), "most of them fail")
}

func TestFailedJobsOfManyGroupsAreListed(t *testing.T) {
	o := &Status{Failures: []Group{{"timeout", 60}, {"refused", 50}}}
	p := o.problems(time.Minute)[0]
	require.Equal(t, "qless failed show timeout", p.Command)
	o.Failures = append(o.Failures, Group{"other", 10})
	p = o.problems(time.Minute)[0]
	require.Equal(t, "timeout", p.Group)
	require.Equal(t, "qless failed ls", p.Command)
}

// A problem is not urgent if a tenth of a queue's jobs fail.
func TestMostRunsThatFailAreUrgent(t *testing.T) {
	for _, test := range []struct {
		rates  Throughput
		urgent bool
	}{
		{Throughput{Completed: 8, Failed: 2}, false}, {Throughput{Completed: 2, Failed: 2}, true},
		{Throughput{Completed: 50, Failed: 10}, true},
		{Throughput{Retried: 19}, true}, {Throughput{Completed: 1, Retried: 19}, false},
	} {
		q := queueOf(qless.QueueCounts{Waiting: 1}, 0)
		q.Rates = test.rates
		o := &Status{Queues: []QueueStatus{q}}
		require.Equal(t, test.urgent, o.problems(time.Minute)[0].Urgent(), "%+v", test)
		if test.rates.Retried > 0 {
			o.Queues = append(o.Queues, q)
			found := o.problems(time.Minute)
			require.Len(t, found, 1, "%+v", test)
			require.Equal(t, test.urgent, found[0].Urgent(), "%+v", test)
			require.Equal(t, "2 queues (mail, mail) retry more than half of their runs, 38 a minute",
				found[0].Sentence)
		}
	}
}

func TestADamagedKeyNamesItsQueue(t *testing.T) {
	o := &Status{Namespace: "{a}:ql:"}
	for key, queue := range map[string]string{
		"{a}:ql:q:mail-fast-work": "mail-fast", "{a}:ql:workers": "", "{a}:ql:q:": "",
	} {
		o.Damaged = []inspect.DamagedKey{{Key: key, Kind: "list"}}
		p := o.problems(time.Minute)[0]
		require.Equal(t, queue, p.Queue)
		require.Equal(t, "the key "+key+" is damaged: it is a list", p.Sentence)
	}
}

func TestEachCodeHasARow(t *testing.T) {
	source, err := os.ReadFile("kinds.go")
	require.NoError(t, err)
	var declared, rows []string
	for _, code := range regexp.MustCompile(`ReasonCode = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, code[1])
	}
	for _, k := range kinds {
		rows = append(rows, string(k.Code))
	}
	require.NotEmpty(t, rows)
	require.Equal(t, declared, rows)
}

// Texts are templates, which must fit any reason.
func TestEachTextOfTheTableIsFilledIn(t *testing.T) {
	full := Reason{
		Queue: "q", Queues: []string{"q", "r"}, Limit: "l", Schedule: "s", Klass: "K", Group: "g",
		Groups: []string{"g"}, Key: "k", Member: "m", JID: "j", JIDs: []string{"j"}, Jobs: 2, Max: 1,
		Workers: []string{"w"}, Slots: 1, Busy: 1, Silent: 1, Blockers: []Blocker{{JID: "b"}},
		Until: time.Unix(0, 0), details: "d", rate: 12,
	}
	codes := map[ReasonCode]bool{}
	for _, k := range Kinds() {
		require.False(t, codes[k.Code], "%s is there twice", k.Code)
		codes[k.Code] = true
		require.NotEmpty(t, k.Gravity, k.Code)
		require.NotEmpty(t, k.Text+k.Line, k.Code)
		for _, text := range []string{k.Text, k.Line, k.Lines, k.Advice} {
			for _, r := range []Reason{full, {}, {Certain: true, Max: 1}} {
				said := r.say(text)
				require.False(t, said == text && strings.Contains(text, "{{"), "%s: %s", k.Code, text)
				require.NotRegexp(t, `<no value>|%!|\{\{`, said, "%s: %s", k.Code, text)
			}
		}
		for _, commands := range []string{k.Command, k.Look} {
			require.Equal(t, commands != "", full.command(commands) != "", "%s: %s", k.Code, commands)
		}
	}
}
