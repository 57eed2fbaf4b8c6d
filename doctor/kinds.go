package doctor

import (
	"slices"

	"github.com/qless/qless-go/internal/redisx"
)

// A ReasonCode is the kind of a [Reason]. Programs may rely on it: it does not change.
type ReasonCode string

// Problems that a status tells, the gravest first.
const (
	ReasonMemoryFull         ReasonCode = "memory_full"
	ReasonRefused            ReasonCode = "refused"
	ReasonDamaged            ReasonCode = "damaged"
	ReasonLost               ReasonCode = "lost"
	ReasonNoWorkers          ReasonCode = "no_workers"
	ReasonNoHandler          ReasonCode = "no_handler"
	ReasonStalled            ReasonCode = "stalled"
	ReasonOld                ReasonCode = "old"
	ReasonFailing            ReasonCode = "failing"
	ReasonRetrying           ReasonCode = "retrying"
	ReasonFailedDependency   ReasonCode = "failed_dependency"
	ReasonOpenBatch          ReasonCode = "open_batch"
	ReasonDeadly             ReasonCode = "deadly"
	ReasonLongRun            ReasonCode = "long_run"
	ReasonCircle             ReasonCode = "circle"
	ReasonBacklog            ReasonCode = "backlog"
	ReasonScheduleMissed     ReasonCode = "schedule_missed"
	ReasonScheduleUnfollowed ReasonCode = "schedule_unfollowed"
	ReasonOutbox             ReasonCode = "outbox"
	ReasonMemoryLow          ReasonCode = "memory_low"
	ReasonEvicts             ReasonCode = "evicts"
	ReasonLimitFull          ReasonCode = "limit_full"
	ReasonMaxRate            ReasonCode = "max_rate"
	ReasonMaxConcurrency     ReasonCode = "max_concurrency"
	ReasonPaused             ReasonCode = "paused"
	ReasonWorkersPaused      ReasonCode = "workers_paused"
	ReasonFailed             ReasonCode = "failed"
	ReasonUniqueHeld         ReasonCode = "unique_held"
	ReasonDistant            ReasonCode = "distant"
)

// Remarks of a status.
const (
	ReasonNoPersistence ReasonCode = "no_persistence"
)

// Further reasons for the jobs of a queue to wait.
const (
	ReasonUnknown        ReasonCode = "unknown"
	ReasonEmpty          ReasonCode = "empty"
	ReasonWorkersBusy    ReasonCode = "workers_busy"
	ReasonScheduled      ReasonCode = "scheduled"
	ReasonRecurring      ReasonCode = "recurring"
	ReasonDepends        ReasonCode = "depends"
	ReasonNotNotified    ReasonCode = "not_notified"
	ReasonExpiredUnswept ReasonCode = "expired_unswept"
	ReasonGrace          ReasonCode = "grace"
	ReasonUnhandled      ReasonCode = "unhandled"
	ReasonNoCompletions  ReasonCode = "no_completions"
	ReasonRunning        ReasonCode = "running"
	ReasonFlowing        ReasonCode = "flowing"
)

// Damage and danger.
const (
	ReasonMisplaced          ReasonCode = "misplaced"
	ReasonGhost              ReasonCode = "ghost"
	ReasonDuplicate          ReasonCode = "duplicate"
	ReasonIncomplete         ReasonCode = "incomplete"
	ReasonNoHistory          ReasonCode = "no_history"
	ReasonOrphan             ReasonCode = "orphan"
	ReasonNoWorker           ReasonCode = "no_worker"
	ReasonLockDiffers        ReasonCode = "lock_differs"
	ReasonLockUnlisted       ReasonCode = "lock_unlisted"
	ReasonLockLeft           ReasonCode = "lock_left"
	ReasonDependencyOneSided ReasonCode = "dependency_one_sided"
	ReasonDependencyOver     ReasonCode = "dependency_over"
	ReasonDependencyLeft     ReasonCode = "dependency_left"
	ReasonWaitsForNothing    ReasonCode = "waits_for_nothing"
	ReasonTagLacking         ReasonCode = "tag_lacking"
	ReasonTagExtra           ReasonCode = "tag_extra"
	ReasonTagCount           ReasonCode = "tag_count"
	ReasonQueueUnlisted      ReasonCode = "queue_unlisted"
	ReasonTimeImpossible     ReasonCode = "time_impossible"
	ReasonOptionsDamaged     ReasonCode = "options_damaged"
	ReasonGroupUnlisted      ReasonCode = "group_unlisted"
	ReasonGroupEmpty         ReasonCode = "group_empty"
	ReasonDeadlineLacking    ReasonCode = "deadline_lacking"
	ReasonClaimLacking       ReasonCode = "claim_lacking"
	ReasonSlotLacking        ReasonCode = "slot_lacking"
	ReasonParkedLacking      ReasonCode = "parked_lacking"
	ReasonLimitDamaged       ReasonCode = "limit_damaged"
	ReasonStatsDamaged       ReasonCode = "stats_damaged"
	ReasonRatesDamaged       ReasonCode = "rates_damaged"
	ReasonTurnDamaged        ReasonCode = "turn_damaged"
	ReasonNoExpiry           ReasonCode = "no_expiry"
	ReasonScheduleEmpty      ReasonCode = "schedule_empty"
	ReasonUnknownKey         ReasonCode = "unknown_key"
	ReasonInnerNamespace     ReasonCode = "inner_namespace"
	ReasonOverdue            ReasonCode = "overdue"
	ReasonFailedUnkept       ReasonCode = "failed_unkept"
	ReasonDependentsPending  ReasonCode = "dependents_pending"
	ReasonTrackedGone        ReasonCode = "tracked_gone"
	ReasonDeadlineLeft       ReasonCode = "deadline_left"
	ReasonFiledLeft          ReasonCode = "filed_left"
	ReasonClaimLeft          ReasonCode = "claim_left"
	ReasonSlotLeft           ReasonCode = "slot_left"
	ReasonParkedLeft         ReasonCode = "parked_left"
	ReasonTurnLeft           ReasonCode = "turn_left"
	ReasonIdleDead           ReasonCode = "idle_dead"
	ReasonClaimDead          ReasonCode = "claim_dead"
	ReasonSettingUnknown     ReasonCode = "setting_unknown"
	ReasonSettingInvalid     ReasonCode = "setting_invalid"
	ReasonSettingDangerous   ReasonCode = "setting_dangerous"
	ReasonPersistenceFailed  ReasonCode = "persistence_failed"
	ReasonOldServer          ReasonCode = "old_server"
	ReasonNewServer          ReasonCode = "new_server"
	ReasonClockSkew          ReasonCode = "clock_skew"
)

// A Kind describes the reasons of a code. Its texts are templates over the fields of the reason.
type Kind struct {
	Code    ReasonCode
	Gravity Gravity // the usual one

	Text  string // the sentence of [Explain] or [Examine], if it is not that of a status
	Line  string // the sentence of a status; if there are Lines, after the word queue and its name
	Lines string // the same for several queues, after their number and names

	Advice  string // what an operator can do
	Command string // the command that does so; " | " separates alternatives
	Look    string // the command that a status suggests, if it is another one
}

// Kinds returns the table of reasons. The problems of a status come first, the gravest first.
func Kinds() []Kind { return slices.Clone(kinds) }

// ProblemCodes returns the codes of the problems of a status, the gravest first.
func ProblemCodes() []ReasonCode {
	var codes []ReasonCode
	for _, k := range kinds[:placeOf(ReasonNoPersistence)] {
		codes = append(codes, k.Code)
	}
	return codes
}

var kinds = []Kind{
	// Problems that a status tells, the gravest first.
	{Code: ReasonMemoryFull, Gravity: Broken,
		Line: `the server's memory is full ({{printf "%.0f" .Rate}} %): {{with .Details}}it ` +
			`deletes jobs by its policy {{.}}{{else}}puts are refused{{end}}`,
		Advice: "Free memory or raise maxmemory.", Command: "qless check server"},
	{Code: ReasonRefused, Gravity: Broken, Text: "The server takes no writes: {{.Details}}.",
		Line:    "{{.Details}}: it refuses puts, and workers get no jobs",
		Command: "qless check server"},
	{Code: ReasonDamaged, Gravity: Broken, Text: "{{.Key}} holds {{.Details}}.",
		Line:    "the key {{.Key}} is damaged: it is a {{.Details}}",
		Advice:  "Another program has written the key. Rename it, then examine again.",
		Command: "redis-cli RENAME {key} aside", Look: "qless doctor"},
	{Code: ReasonLost, Gravity: Broken,
		Text: `{{if .Key}}By its record, the job {{.Name}} belongs in {{.Details}}, but it is not ` +
			`there{{else}}` + unlockedJobs + `{{end}}.`,
		Line:    unlockedJobs,
		Advice:  "{{if .Key}}Move it to its queue: it is then due now.{{else}}" + repairs + "{{end}}",
		Command: "qless job move {jid} --to {queue} | qless job move {jid} --to QUEUE"},
	{Code: ReasonNoWorkers, Gravity: Urgent,
		Text: "No known worker takes jobs from the queue.{{with .Details}} {{.}}{{end}}" +
			"{{silence .Silent}}",
		Line:   "has no workers: {{.Wait}}{{with .Details}}. {{.}}{{end}}",
		Lines:  "have no workers: {{.Wait}}",
		Advice: "Start a worker for the queue.", Command: "qless worker ls", Look: whyQueue},
	{Code: ReasonNoHandler, Gravity: Urgent,
		Text: `No worker that takes jobs from the queue has a handler for the klass {{printf ` +
			`"%q" .Klass}}, which {{verb .Jobs "job" "has" "have"}}.`,
		Line:   "has jobs of the klass {{.Klass}}, for which no worker has a handler",
		Lines:  "have jobs of klasses for which no worker has a handler",
		Advice: "Deploy workers that have a handler for it.", Command: "qless job show {jid}",
		Look: whyQueue},
	{Code: ReasonStalled, Gravity: Urgent,
		Text: `The locks {{if .Key}}in {{.Key}} on {{.Details}}{{else}}on {{count .Jobs "job"}}, ` +
			`held by {{list .Workers}},{{end}} have expired, and no worker has asked the queue for ` +
			`jobs since.{{if not .Key}}{{with .Details}} No longer listed: {{.}}.{{end}}{{end}}`,
		Line:   "has {{expired .Jobs}}{{.Details}}: did workers die?",
		Lines:  "have {{expired .Jobs}}: did workers die?",
		Advice: "Start another worker: it takes over the jobs.", Command: "qless worker ls",
		Look: whyQueue},
	{Code: ReasonOld, Gravity: Urgent, Line: "is late: {{.Wait}}", Lines: "are late: {{.Wait}}",
		Look: whyQueue},
	{Code: ReasonFailing, Gravity: Attention,
		Line: `fails {{printf "%.0f" .Rate}} % of its jobs, {{.Details}} a minute{{with ` +
			`.Group}}, most in {{.}}{{end}}`,
		Lines: "fail more than 10 % of their jobs, {{.Jobs}} a minute{{with .Group}}, most in " +
			"{{.}}{{end}}",
		Look: "qless failed show {group} | qless failed ls"},
	{Code: ReasonRetrying, Gravity: Attention,
		Line:  `retries {{printf "%.0f" .Rate}} % of its runs, {{.Details}} a minute`,
		Lines: "retry more than half of their runs, {{.Jobs}} a minute", Look: whyQueue},
	{Code: ReasonFailedDependency, Gravity: Attention,
		Text: `{{verb .Jobs "job" "waits" "wait"}} for others, of which {{.Details}}, in {{list ` +
			`.Groups}}: nothing happens until the failed ones are retried or the waiting ones ` +
			`canceled.`,
		Line:    `has {{count .Jobs "job"}} waiting for failed ones, such as {{.JID}}`,
		Lines:   `have {{count .Jobs "job"}} waiting for failed ones`,
		Advice:  "Retry the failed jobs, or cancel the waiting ones.",
		Command: "qless job unfail {blocker}", Look: "qless job show {jid}"},
	{Code: ReasonOpenBatch, Gravity: Attention,
		Text: `{{verb .Jobs "callback" "waits" "wait"}} for a batch to be committed.`,
		Line: "has a batch that has been open for {{.Details}}, with the callback {{.JID}}: will it " +
			"be committed?",
		Lines:  "have batches that have been open for over a day, such as that of {{.JID}}",
		Advice: "Commit the batch, or cancel its callback.", Command: "qless job show {jid}"},
	{Code: ReasonDeadly, Gravity: Attention,
		Line: "job {{.JID}}, a {{.Klass}}, has failed after its worker died or lost it at each of " +
			"{{.Details}} runs",
		Command: "qless job show {jid}"},
	{Code: ReasonLongRun, Gravity: Attention,
		Line: "has a job that has been running for {{.Details}}, much longer than usual: {{.JID}}, " +
			"a {{.Klass}}, on {{list .Workers}}",
		Lines:   "have jobs that have been running for much longer than usual, such as {{.JID}}",
		Command: "qless job show {jid}"},
	{Code: ReasonCircle, Gravity: Urgent,
		Line:    "has jobs that wait for each other, and never run: {{list .JIDs}}",
		Lines:   "have jobs that wait for each other, and never run, such as {{.JID}}",
		Advice:  "Remove a dependency, or cancel one of them.",
		Command: "qless job undepend {jid} --on {blocker}"},
	{Code: ReasonBacklog, Gravity: Attention,
		Line: "has a recurring job, {{.JID}}, that has missed {{.Jobs}} runs: their jobs go before " +
			"newer ones",
		Lines:   "have recurring jobs that have missed many runs, such as {{.JID}}",
		Advice:  "Limit the number of missed jobs that are put.",
		Command: "qless recur set {jid} --backlog 1"},
	{Code: ReasonScheduleMissed, Gravity: Urgent,
		Line:    "schedule {{.Schedule}} is overdue: it missed {{.Details}}",
		Command: "qless schedule ls"},
	{Code: ReasonScheduleUnfollowed, Gravity: Attention,
		Line: "no worker follows schedule {{.Schedule}}{{if not .Until.IsZero}}, whose next job is " +
			"due at {{clock .Until}}{{end}}",
		Command: "qless schedule ls"},
	{Code: ReasonOutbox, Gravity: Attention, Line: "the outbox {{.Outbox}} {{.Details}}"},
	{Code: ReasonMemoryLow, Gravity: Warning,
		Line:   `{{printf "%.0f" .Rate}} % of the server's memory is used`,
		Advice: "Free memory or raise maxmemory.", Command: "qless check server"},
	{Code: ReasonEvicts, Gravity: Warning,
		Line: "the server deletes jobs when its memory is full: its policy is {{.Details}}, not " +
			"noeviction",
		Advice:  "Set its maxmemory-policy to noeviction.",
		Command: "redis-cli CONFIG SET maxmemory-policy noeviction", Look: "qless doctor"},
	{Code: ReasonLimitFull, Gravity: Attention,
		Text: `{{verb .Jobs "job" "waits" "wait"}} for the limit {{printf "%q" .Limit}}{{if not ` +
			`.Certain}}, which has free slots now: each job is tried again within about a ` +
			`minute{{else if .Details}}: no more than {{count .Max "job"}} may start in ` +
			`{{.Details}}, the next one at {{clock .Until}}{{else if .Max}}: no more than ` +
			`{{.Max}} may run at once, and these do: {{list .JIDs}}{{else}}, which is held until ` +
			`{{clock .Until}}{{end}}.`,
		Line: `limit {{.Limit}} is full: {{waits .Jobs}} for it{{if not (or .Max .Until.IsZero)}}, ` +
			`and is held until {{clock .Until}}{{else if .Busy}}, and {{verb .Busy "job" "holds" ` +
			`"hold"}} its slots{{end}}`,
		Advice: "{{if not .Certain}}Wait a minute.{{else if .JIDs}}Look at a job that holds a " +
			"slot, or raise the limit.{{else}}Wait, or raise the limit.{{end}}",
		Command: "qless job show {jid}", Look: "qless job show {jid} | qless limit show {limit}"},
	{Code: ReasonMaxRate, Gravity: Attention,
		Text: `No more than {{count .Max "job"}} may start in {{.Details}}, the next one at ` +
			`{{clock .Until}}.`,
		Line: "is at its max-rate: {{.Wait}}", Lines: "are at their max-rate: {{waits .Jobs}}",
		Advice: "Wait, or raise the rate.", Command: "qless config get {queue}-max-rate",
		Look: whyQueue},
	{Code: ReasonMaxConcurrency, Gravity: Attention,
		Text: `No more than {{count .Max "job"}} of the queue may run at once, and {{verb .Busy ` +
			`"job" "runs" "run"}}: {{list .JIDs}}.`,
		Line:    "is at its max-concurrency of {{.Max}}: {{.Wait}}",
		Lines:   "are at their max-concurrency: {{waits .Jobs}}",
		Advice:  "Raise the limit, or find out why those jobs take so long.",
		Command: "qless config set {queue}-max-concurrency {max}", Look: whyQueue},
	{Code: ReasonPaused, Gravity: Attention,
		Text: "The queue is paused: workers get no jobs until it is resumed.",
		Line: "is paused: {{.Wait}}", Lines: "are paused: {{.Wait}}", Advice: "Resume it.",
		Command: "qless queue resume {queue}"},
	{Code: ReasonWorkersPaused, Gravity: Attention,
		Text: "All workers that take jobs from the queue are paused or stopping: {{list " +
			".Workers}}.{{silence .Silent}}",
		Line:   "has only workers that are paused or stopping: {{.Wait}}",
		Lines:  "have only workers that are paused or stopping: {{.Wait}}",
		Advice: "Resume the workers, or start others.", Command: "qless worker ls", Look: whyQueue},
	{Code: ReasonFailed, Gravity: Attention,
		Line: "{{.Jobs}} jobs have failed and wait to be retried or canceled, {{.Details}} of " +
			"them in {{.Group}}",
		Command: "qless failed ls"},
	{Code: ReasonUniqueHeld, Gravity: Attention,
		Line: "puts with the unique key{{if .Details}}s of {{.Details}} jobs are refused until " +
			"these are due, the last{{else}} of job {{.JID}} are refused until it is due{{end}} " +
			"at {{clock .Until}}",
		Command: "qless job show {jid}"},
	{Code: ReasonDistant, Gravity: Attention,
		Line: `has a job that is not due until {{.Until.UTC.Format "2006-01-02"}}: is that ` +
			`intended?`,
		Lines:   "have jobs that are not due for a long time, such as {{.JID}}",
		Command: "qless job show {jid}"},

	// Remarks of a status.
	{Code: ReasonNoPersistence, Gravity: Warning,
		Line:   "the server keeps nothing on disk: a restart loses all jobs",
		Advice: "Set appendonly to yes.", Command: "redis-cli CONFIG SET appendonly yes",
		Look: "qless doctor"},

	// Further reasons for the jobs of a queue to wait.
	{Code: ReasonUnknown, Gravity: Attention,
		Text: `No queue {{printf "%q" .Queue}} is known: it never had a job, or it was forgotten.` +
			`{{with .Details}} Did you mean {{.}}?{{end}}`,
		Advice: "Compare the name with those of the queues.", Command: "qless queue ls"},
	{Code: ReasonEmpty, Gravity: Calm, Text: "The queue has no jobs.",
		Advice: "Check whether the jobs have failed or are complete.", Command: "qless failed ls"},
	{Code: ReasonWorkersBusy, Gravity: Attention,
		Text: `{{if .Slots}}{{.Details}} jobs from the queue, and none has a free slot: {{count ` +
			`.Busy "job"}} in {{count .Slots "slot"}}.{{else}}No registered worker takes jobs ` +
			`from the queue. {{.Details}} its jobs with an unknown number of slots, which may ` +
			`all be busy: {{list .Workers}}.{{end}}`,
		Advice:  "Start more workers, or find out which jobs take so long.",
		Command: "qless worker ls"},
	{Code: ReasonScheduled, Gravity: Calm,
		Text: `{{verb .Jobs "job" "is scheduled" "are scheduled"}}{{if not .Until.IsZero}}, the ` +
			`next for {{clock .Until}}{{end}}.`,
		Advice:  "Wait, or check when they are due.",
		Command: "qless job ls -q {queue} -s scheduled"},
	{Code: ReasonRecurring, Gravity: Calm,
		Text:   `The queue has only {{count .Jobs "recurring job"}}, due next at {{clock .Until}}.`,
		Advice: "Wait, or check when it is due.", Command: "qless recur ls"},
	{Code: ReasonDepends, Gravity: Attention,
		Text: `{{verb .Jobs "job" "waits" "wait"}} for others to complete{{with ` +
			`.Blockers}}{{with index . 0}}, such as {{.JID}}, which {{if eq .State ` +
			`"depends"}}waits for others{{else}}is {{.State}}{{end}} in {{printf "%q" ` +
			`.Queue}}{{end}}{{end}}.`,
		Advice:  "{{if .Blockers}}Look at the jobs that they wait for.{{end}}",
		Command: "qless job graph {blocker}"},
	{Code: ReasonNotNotified, Gravity: Leftover,
		Text: `{{if .Key}}The job {{.Name}} was not notified that {{.Details}}, which it waits ` +
			`for, has failed: a sweep notifies it.{{else}}{{verb .Jobs "job" "was" "were"}} not ` +
			`notified that others failed: the script of another client, or an old one, failed ` +
			`those.{{end}}`,
		Advice: "Notify them, or wait: a Go worker does so every 5 minutes.", Command: "qless sweep"},
	{Code: ReasonExpiredUnswept, Gravity: Attention,
		Text: "{{if .Key}}The life of the job {{.Name}}, which is {{.Details}}, is over: a sweep " +
			"deletes it, or fails it if others depend on it.{{else}}{{.Details}}: nothing has " +
			"noticed that yet.{{end}}",
		Advice: "Sweep. If that does not help, qless doctor --fix does.", Command: "qless sweep"},
	{Code: ReasonGrace, Gravity: Attention,
		Text: `The locks on {{count .Jobs "job"}}, held by {{list .Workers}}, have expired. The ` +
			`first grace period ends at {{clock .Until}}.`,
		Advice:  "Wait for the end of the grace period. Did a worker die?",
		Command: "qless worker ls"},
	{Code: ReasonUnhandled, Gravity: Urgent,
		Text: `{{verb .Jobs "job" "has" "have"}} failed in {{list .Groups}}: workers in other ` +
			`languages fail jobs this way when they can't find the code for a klass.`,
		Advice: "Deploy the code, then retry the jobs.", Command: "qless failed unfail {group}"},
	{Code: ReasonNoCompletions, Gravity: Urgent,
		Text: `No Go worker has completed a job of the klass {{printf "%q" .Klass}} from this ` +
			`queue in the last hour: {{.Failed}} failed and {{.Retried}} were retried{{with ` +
			`.Details}}, the last in {{.}}{{end}}.`,
		Advice:  "Look at how its jobs fail, and read the workers' logs.",
		Command: "qless job show {jid}"},
	{Code: ReasonRunning, Gravity: Calm, Text: `{{verb .Jobs "job" "runs" "run"}}, and none waits.`},
	{Code: ReasonFlowing, Gravity: Calm,
		Text: `Nothing seems to keep {{count .Jobs "job"}} waiting: {{.Details}} jobs from the ` +
			`queue, with {{.Busy}} of {{count .Slots "slot"}} in use, and {{verb .Completed ` +
			`"run" "was" "were"}} completed in the last hour.`,
		Advice: "Check whether the counts go down.", Command: "qless top --queue {queue}"},

	// Damage and danger.
	{Code: ReasonMisplaced, Gravity: Broken,
		Text: "{{.Key}} has the job {{.Name}}, which by its record belongs in {{.Details}}."},
	{Code: ReasonGhost, Gravity: Broken,
		Text: "{{.Key}} has the job {{.Name}}, which has no record."},
	{Code: ReasonDuplicate, Gravity: Broken,
		Text: "The failure group {{.Key}} has the job {{.Name}} more than once."},
	{Code: ReasonIncomplete, Gravity: Broken,
		Text: "The record {{.Key}} is incomplete: it has {{.Details}}.",
		Advice: "Move it to a queue, where it is then due, or read it by its key, put it again, " +
			"and delete the key.",
		Command: "qless job move {record} --to QUEUE | redis-cli HGETALL {key}"},
	{Code: ReasonNoHistory, Gravity: Broken, Text: "The job {{.Name}} has no history."},
	{Code: ReasonOrphan, Gravity: Broken,
		Text: "{{.Key}} is the history of a job that has no record."},
	{Code: ReasonNoWorker, Gravity: Broken,
		Text: "The job {{.Name}} is running but names no worker."},
	{Code: ReasonLockDiffers, Gravity: Broken,
		Text: "The job {{.Name}}, its queue and its worker disagree on when its lock expires."},
	{Code: ReasonLockUnlisted, Gravity: Leftover,
		Text: "The job {{.Name}} is running but is not among the jobs of its worker {{.Details}}."},
	{Code: ReasonLockLeft, Gravity: Leftover,
		Text: "{{.Key}} has the job {{.Name}} ({{.Details}}), which the worker does not hold."},
	{Code: ReasonDependencyOneSided, Gravity: Broken,
		Text: "{{.Key}} has the dependency {{.Name}}, which {{.Details}} lacks."},
	{Code: ReasonDependencyOver, Gravity: Broken,
		Text: "{{.Key}} has the dependency {{.Name}} on a job that is {{.Details}}."},
	{Code: ReasonDependencyLeft, Gravity: Broken,
		Text: "{{.Key}} has the dependency {{.Name}} of a job that is {{.Details}}."},
	{Code: ReasonWaitsForNothing, Gravity: Broken,
		Text: "The job {{.Name}} waits for others but has no dependencies."},
	{Code: ReasonTagLacking, Gravity: Broken,
		Text: "The job {{.Name}} is not among the jobs of its tags {{.Details}}."},
	{Code: ReasonTagExtra, Gravity: Broken,
		Text: "{{.Key}} has the job {{.Name}}, which does not have the tag."},
	{Code: ReasonTagCount, Gravity: Broken,
		Text: "The counter of the tag {{.Name}} is {{.Details}}."},
	{Code: ReasonQueueUnlisted, Gravity: Broken,
		Text: "The queue {{.Details}} has jobs but is not among the queues."},
	{Code: ReasonTimeImpossible, Gravity: Broken,
		Text: "{{.Key}} has the job {{.Name}} for a time that is none: {{.Details}}."},
	{Code: ReasonOptionsDamaged, Gravity: Broken,
		Text: "The options of the job {{.Name}} can't be read: {{.Details}}."},
	{Code: ReasonGroupUnlisted, Gravity: Broken,
		Text: "{{.Key}} has failed jobs but is not among the failure groups."},
	{Code: ReasonGroupEmpty, Gravity: Broken,
		Text: "The failure group {{.Name}} is listed but has no jobs."},
	{Code: ReasonDeadlineLacking, Gravity: Leftover,
		Text: "The job {{.Name}} has a lifetime that no sweep would enforce."},
	{Code: ReasonClaimLacking, Gravity: Leftover,
		Text: "No job holds the unique key {{.Details}} of the job {{.Name}}."},
	{Code: ReasonSlotLacking, Gravity: Leftover,
		Text: "The job {{.Name}} is running but has no slot of its limit {{.Details}}."},
	{Code: ReasonParkedLacking, Gravity: Broken,
		Text: "The job {{.Name}} waits for the limit {{.Details}}, which does not know it."},
	{Code: ReasonLimitDamaged, Gravity: Broken,
		Text:   "The definition of the limit {{.Name}} can't be read: {{.Details}}.",
		Advice: "Set the limit again."},
	{Code: ReasonStatsDamaged, Gravity: Broken,
		Text: "The figure {{.Name}} of {{.Key}} is impossible: {{.Details}}."},
	{Code: ReasonRatesDamaged, Gravity: Broken,
		Text: "The rates {{.Name}} of {{.Key}} can't be read: {{.Details}}."},
	{Code: ReasonTurnDamaged, Gravity: Broken,
		Text: "The turn of the tenant {{.Name}} in {{.Key}} can't end at {{.Details}}."},
	{Code: ReasonNoExpiry, Gravity: Broken, Text: "{{.Key}} should expire but does not."},
	{Code: ReasonScheduleEmpty, Gravity: Broken,
		Text: "The schedule {{.Name}} is registered but has no data."},
	{Code: ReasonUnknownKey, Gravity: Warning,
		Text:   "{{.Key}} is a key that no known program uses.",
		Advice: "Find out which program writes it, and give that another prefix."},
	{Code: ReasonInnerNamespace, Gravity: Warning,
		Text: "The keys that begin with {{.Key}} look like another namespace: its name should " +
			"not begin with the name of this one.",
		Advice: "Give one of them another name: qless dump, and qless restore with another " +
			"--namespace."},
	{Code: ReasonOverdue, Gravity: Leftover,
		Text: "{{.Key}} has {{.Details}} that fell due over a minute ago, and no worker has asked " +
			"the queue for jobs since: a sweep of the queue moves them.",
		Advice: "Start a worker of the queue, or sweep.", Command: "qless sweep *"},
	{Code: ReasonFailedUnkept, Gravity: Leftover,
		Text:    "{{.Key}} has failed jobs that the settings do not keep: a sweep deletes them.",
		Command: "qless sweep"},
	{Code: ReasonDependentsPending, Gravity: Leftover,
		Text: "Not all jobs that wait for {{.Name}}, which is {{.Details}}, were notified: a " +
			"sweep notifies them.",
		Command: "qless sweep"},
	{Code: ReasonTrackedGone, Gravity: Leftover, Text: "The job {{.Name}} is tracked but gone."},
	{Code: ReasonDeadlineLeft, Gravity: Leftover,
		Text: "A deadline is recorded for the job {{.Name}}, which has no lifetime or is gone."},
	{Code: ReasonFiledLeft, Gravity: Leftover,
		Text: "The job {{.Name}} is filed as failed but is {{.Details}}."},
	{Code: ReasonClaimLeft, Gravity: Leftover,
		Text: "{{.Key}} is a claim that is no longer in force."},
	{Code: ReasonSlotLeft, Gravity: Leftover,
		Text: "{{.Key}} has a slot for the job {{.Name}}, which is not running: it is " +
			"{{.Details}}."},
	{Code: ReasonParkedLeft, Gravity: Leftover,
		Text: "{{.Key}} has the job {{.Name}}, which does not wait for the limit: it is " +
			"{{.Details}}."},
	{Code: ReasonTurnLeft, Gravity: Leftover,
		Text: "{{.Key}} has turns of tenants without waiting jobs."},
	{Code: ReasonIdleDead, Gravity: Leftover,
		Text: "{{.Key}} has the idle worker {{.Name}}, which is gone."},
	{Code: ReasonClaimDead, Gravity: Leftover,
		Text: "{{.Key}} is a claim of the worker {{.Details}}, which is gone."},
	{Code: ReasonSettingUnknown, Gravity: Warning,
		Text:    "No known client reads the setting {{.Name}}.",
		Advice:  "Reset it, unless another client reads it.",
		Command: "qless config unset {member}"},
	{Code: ReasonSettingInvalid, Gravity: Warning,
		Text:   "The value of the setting {{.Name}} is invalid: {{.Details}}.",
		Advice: "Set another value, or reset it.", Command: "qless config unset {member}"},
	{Code: ReasonSettingDangerous, Gravity: Warning,
		Text: "The setting {{.Name}} is {{.Details}}.", Advice: "Set another value, or reset it.",
		Command: "qless config set {member} VALUE"},
	{Code: ReasonPersistenceFailed, Gravity: Warning,
		Text:   "The server could not write to its disk: {{.Details}}.",
		Advice: "See the log of the server: the disk may be full, or not writable."},
	{Code: ReasonOldServer, Gravity: Warning,
		Text: "The server is Redis {{.Details}}, but " + redisx.OldestServer +
			" or later is required.",
		Advice: "Upgrade the server."},
	{Code: ReasonNewServer, Gravity: Warning,
		Text: "The server is {{.Details}}, which is newer than those that this version was " +
			"tested on.",
		Advice: "Look for a newer version of qless."},
	{Code: ReasonClockSkew, Gravity: Warning,
		Text:   "The clock of the worker {{.Name}} is ahead of the server's by {{.Details}}.",
		Advice: "Let the host of the worker set its clock by NTP."},
}
