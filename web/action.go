package web

import (
	"maps"
	"slices"

	"github.com/qless/qless-go/web/internal/actions"
)

// An Action is a kind of change to jobs, queues or settings. [Options.Allow] decides who may do it.
type Action string

// The actions on jobs.
const (
	ActionJobCancel     Action = "job.cancel"     // delete jobs, with a receipt
	ActionJobCopy       Action = "job.copy"       // put copies of jobs
	ActionJobDepend     Action = "job.depend"     // make jobs wait for more jobs
	ActionJobEdit       Action = "job.edit"       // change the data of a job
	ActionJobLog        Action = "job.log"        // add a message to the history of jobs
	ActionJobMove       Action = "job.move"       // put jobs into another queue
	ActionJobPriority   Action = "job.priority"   // change the priority of jobs
	ActionJobPromote    Action = "job.promote"    // make scheduled jobs due now
	ActionJobPut        Action = "job.put"        // put a new job
	ActionJobReschedule Action = "job.reschedule" // change when jobs fall due
	ActionJobRestore    Action = "job.restore"    // put the jobs of a receipt again
	ActionJobTag        Action = "job.tag"        // add tags to jobs
	ActionJobTimeout    Action = "job.timeout"    // take running jobs from their workers
	ActionJobTrack      Action = "job.track"      // start tracking jobs
	ActionJobUndepend   Action = "job.undepend"   // make jobs wait for fewer jobs, or for none
	ActionJobUnfail     Action = "job.unfail"     // put failed jobs back into their own queues
	ActionJobUntag      Action = "job.untag"      // remove tags from jobs
	ActionJobUntrack    Action = "job.untrack"    // stop tracking jobs
)

// The actions on queues.
const (
	ActionQueueForget         Action = "queue.forget"          // remove it from the list of queues
	ActionQueueHeartbeat      Action = "queue.heartbeat"       // set the duration of locks
	ActionQueueMaxConcurrency Action = "queue.max_concurrency" // limit concurrent jobs
	ActionQueueMaxRate        Action = "queue.max_rate"        // limit the rate of starts
	ActionQueuePause          Action = "queue.pause"           // stop workers from taking its jobs
	ActionQueueResume         Action = "queue.resume"          // let workers take its jobs again
	ActionQueueUnfail         Action = "queue.unfail"          // put failed jobs of a group into it
)

// The actions on everything else.
const (
	ActionConfigSet      Action = "config.set"      // change a setting
	ActionConfigUnset    Action = "config.unset"    // reset a setting to its default
	ActionDoctorExamine  Action = "doctor.examine"  // look for damage in the namespace
	ActionDoctorFix      Action = "doctor.fix"      // repair what can be repaired
	ActionLimitHold      Action = "limit.hold"      // start no jobs with a limit for some time
	ActionLimitSet       Action = "limit.set"       // define or change a limit
	ActionLimitUnset     Action = "limit.unset"     // remove a limit
	ActionRecurCancel    Action = "recur.cancel"    // delete a recurring job
	ActionRecurPut       Action = "recur.put"       // put a recurring job
	ActionRecurRun       Action = "recur.run"       // put a job of a recurring job now
	ActionRecurSet       Action = "recur.set"       // change a recurring job
	ActionScheduleForget Action = "schedule.forget" // remove a schedule
	ActionScheduleRun    Action = "schedule.run"    // put a job of a schedule now
	ActionWorkerForget   Action = "worker.forget"   // remove a worker from the list of workers
)

// Actions returns all actions, sorted.
func Actions() []Action {
	var all []Action
	for _, name := range slices.Sorted(maps.Keys(actions.All)) {
		all = append(all, Action(name))
	}
	return all
}
