package qless

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A UniqueClaim is what a job with a unique key claims: see [Unique].
type UniqueClaim struct {
	// Key is the key: the parts as a JSON array, or a text made of the klass and the data.
	Key string `json:"key"`

	// UntilStarted says that the job does not hold the key while it runs.
	UntilStarted bool `json:"until_started,omitempty"`

	// For is how long the job holds the key after its put, whatever becomes of it, or 0.
	For time.Duration `json:"for,omitempty"`
}

// shown returns the claim as a job shows it, or nil.
func (c *claim) shown() *UniqueClaim {
	if c == nil || c.Key == "" {
		return nil
	}
	shown := &UniqueClaim{Key: c.Key, UntilStarted: c.Mode == claimUntilStarted}
	if c.Mode == claimFor {
		shown.For = durationOf(c.Seconds)
	}
	return shown
}

// option returns the option that claims the same.
func (u *UniqueClaim) option() UniqueOption {
	o := UniqueOption{key: u.Key, started: u.UntilStarted}
	if u.For != 0 {
		o.window = &u.For
	}
	return o
}

// Spec returns what [Queue.PutMany] needs to put the job as it is now, for instance after it was
// canceled: its jid, klass, data and options. It goes into the job's Queue. A Job that was read by
// [Client.Job] or [Client.Jobs] has all of it, and so has one that was decoded from the JSON of such
// a Job, which makes that JSON a receipt for a job that is deleted.
//
// A job that is scheduled, or waits for others, falls due when it would have. [StartBy] and [TTL]
// end when they would have: if one is over, the put is [ErrInvalid]. They are left out of a job that
// has failed or is complete, as their ends are. A job that has an [OnFailure] depends on its
// Parents and Dependencies, any other one on its Dependencies.
//
// What has happened to a job does not come back: its history, its failure, the retries that it has
// used, its result, its place among jobs of its priority, and whether it is tracked or was put by a
// recurring job. It gets exactly the headers that it had: [WithHeaders] adds none. If a job with
// the jid exists, it is put again ([JID]): append [IfAbsent] to the Options to leave it alone.
func (j *Job) Spec() JobSpec {
	options := []PutOption{
		JID(j.JID), Priority(j.Priority), Retries(j.Retries), Tags(j.Tags...),
		Headers(nil), Headers(j.Headers),
	}
	if j.isPending() && !j.Due.IsZero() && j.Parked == "" {
		options = append(options, At(j.Due))
	}
	options = append(options, j.dependOptions()...)
	options = append(options, j.lifeOptions()...)
	if j.LockTime > 0 {
		options = append(options, LockTime(j.LockTime))
	}
	if j.OnLost != "" {
		options = append(options, OnLost(j.OnLost))
	}
	if j.Unique != nil {
		options = append(options, j.Unique.option())
	}
	if j.Tenant != "" {
		options = append(options, FairWeight(j.Tenant, cmp.Or(j.Weight, 1)))
	}
	if len(j.Limits) > 0 {
		options = append(options, Limits(j.Limits...))
	}
	spec := JobSpec{Klass: j.Klass, Options: options}
	if len(j.Data) > 0 {
		spec.Data = slices.Clone(j.Data)
		if stored, isStored := j.stored().(storedData); isStored && !json.Valid(stored) {
			spec.Data = slices.Clone(stored)
		}
	}
	return spec
}

// isPending reports whether the job waits for its time or for other jobs.
func (j *Job) isPending() bool { return j.State == StateScheduled || j.State == StateDepends }

// dependOptions returns the options about the jobs that the job waits for.
func (j *Job) dependOptions() []PutOption {
	var options []PutOption
	var wanted []string
	if j.OnFailure != "" {
		options, wanted = append(options, j.OnFailure), slices.Clone(j.Parents)
	}
	for _, jid := range j.Dependencies {
		if jid != openBatch && !slices.Contains(wanted, jid) {
			wanted = append(wanted, jid)
		}
	}
	if len(wanted) > 0 {
		options = append(options, DependsOn(wanted...))
	}
	if j.BatchSize != nil {
		options = append(options, batchState{
			size: *j.BatchSize, isOpen: slices.Contains(j.Dependencies, openBatch),
		})
	}
	return options
}

// lifeOptions returns the options that are lifetimes.
func (j *Job) lifeOptions() []PutOption {
	var options []PutOption
	if j.State != StateComplete && j.State != StateFailed {
		options = append(options, lifeEnds{startBy: j.StartBy, gone: j.GoneBy})
	}
	if j.KeepFor != nil {
		options = append(options, KeepFor(*j.KeepFor))
	}
	if j.KeepFailedFor != nil {
		options = append(options, KeepFailedFor(*j.KeepFailedFor))
	}
	if j.RunFor > 0 {
		options = append(options, RunFor(j.RunFor))
	}
	return options
}

// lifeEnds are [StartBy] and [TTL] as times. The zero time means not set.
type lifeEnds struct{ startBy, gone time.Time }

func (o lifeEnds) applyPut(c *callOptions) { c.lifeEnds = o }

// store sets the options that end at these times, unless they are given in another way.
func (o lifeEnds) store(options *jobOptions) {
	set := func(field **wire.Number, at time.Time, letter string) {
		if at.IsZero() || *field != nil {
			return
		}
		n := wire.Number(float64(at.UnixMicro()) / 1e6)
		*field = &n
		options.AsTimes += letter
	}
	set(&options.StartBy, o.startBy, "s")
	set(&options.TTL, o.gone, "t")
}

// A batchState makes a job the callback of a batch, with a number of members.
type batchState struct {
	size   int
	isOpen bool
}

func (o batchState) applyPut(c *callOptions) {
	size := wire.Number(o.size)
	c.opensBatch, c.batchSize = o.isOpen, &size
}
