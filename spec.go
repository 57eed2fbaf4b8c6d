package qless

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A JobSpec describes a job to be put.
type JobSpec struct {
	Klass   string
	Data    any
	Options []PutOption
}

// MarshalJSON writes an object for UnmarshalJSON, with the data as it would be stored, and keeps a
// unique key made of it. A job that a put would refuse, or one of a batch, is [ErrInvalid].
func (s JobSpec) MarshalJSON() ([]byte, error) {
	p, err := newPut("any", s)
	if err != nil {
		return nil, err
	}
	text, err := p.options.JSON(p.klass, p.data)
	return text, asInvalid("", p.options.JID, err)
}

// UnmarshalJSON reads an object with klass, data and options: see the table in docs/extensions.md.
// Durations are numbers of seconds, or strings such as "90s"; StartBy and TTL may also be times. An
// unknown field, or a value that does not fit, is [ErrInvalid].
func (s *JobSpec) UnmarshalJSON(text []byte) error {
	return asInvalid("", "", s.read(text))
}

func (s *JobSpec) read(text []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	read := JobSpec{}
	if klass, given := values["klass"]; given {
		if err := json.Unmarshal(klass, &read.Klass); err != nil {
			return err
		}
	}
	if data, given := values["data"]; given {
		read.Data = data
	}
	delete(values, "klass")
	delete(values, "data")
	var o jobopts.Options
	if err := o.Set(values); err != nil {
		return err
	}
	read.Options = specOptions(o)
	*s = read
	return nil
}

// specOptions returns the options of a JobSpec. The jid is a separate option, so that a caller can
// leave it out.
func specOptions(o jobopts.Options) []PutOption {
	jid := JID(o.JID)
	o.JID = ""
	if jid == "" {
		return []PutOption{givenOptions(o)}
	}
	return []PutOption{givenOptions(o), jid}
}

// Spec returns the spec with which [Queue.PutMany] puts the job as it is now, for instance after a
// cancellation: the jid, klass, data and options. Put it into the job's Queue. The spec is complete
// for a Job that was read by [Client.Job] or [Client.Jobs], or decoded from the JSON of such a Job.
//
// Due times, StartBy and TTL keep their ends; a put after the end of a life is [ErrInvalid]. The
// job's past is not restored, such as the history, the result and the number of used retries. An
// existing job with the jid is put again ([JID]), unless [IfAbsent] is appended to the Options.
func (j *Job) Spec() JobSpec {
	o := j.Options.given()
	o.JID, o.Priority, o.Retries = j.JID, &j.Priority, &j.Retries
	o.Tags = append([]string{}, j.Tags...)
	Headers(nil).applyPut(&o) // none but those of the job
	j.Headers.applyPut(&o)
	if j.isPending() && !j.Due.IsZero() && j.Parked == "" {
		o.At = &j.Due
	}
	if j.State != StateComplete && j.State != StateFailed {
		o.StartBy, o.TTL = jobopts.At(j.Options.StartBy), jobopts.At(j.Options.TTL)
	}
	j.addDependencies(&o)
	spec := JobSpec{Klass: j.Klass, Options: specOptions(o)}
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

// addDependencies adds the options about the jobs that the job waits for.
func (j *Job) addDependencies(o *jobopts.Options) {
	if j.Options.OnFailure != "" {
		o.DependsOn = slices.Clone(j.Options.Parents)
	}
	for _, jid := range j.Dependencies {
		if jid != jobopts.OpenBatch && !slices.Contains(o.DependsOn, jid) {
			o.DependsOn = append(o.DependsOn, jid)
		}
	}
	if j.BatchSize != nil {
		o.Batch = &jobopts.Batch{Total: wire.Number(*j.BatchSize)}
		o.OpensBatch = slices.Contains(j.Dependencies, jobopts.OpenBatch)
	}
}

// JobOptions holds the options of a job, except for those in fields of [Job]. A zero field means
// that the option was not given; times for which 0 is a value are pointers.
type JobOptions struct {
	// Fair is the job's tenant: see the option [Fair].
	Fair string `json:"fair,omitempty"`

	// KeepFailedFor is how long the job is kept after a failure, or [Forever]. Nil means that the
	// settings apply.
	KeepFailedFor *time.Duration `json:"keep_failed_for,omitempty"`

	// KeepFor is how long the job is kept once complete. Nil means that the settings apply.
	KeepFor *time.Duration `json:"keep_for,omitempty"`

	// Limits are the job's limits, which must all have room for it to start.
	Limits Limits `json:"limits,omitempty"`

	// LockTime is the duration of each lock on the job; 0 is the queue's.
	LockTime time.Duration `json:"lock_time,omitempty"`

	// MaxRunTime is the maximum time of the handler; 0 is that of the worker.
	MaxRunTime time.Duration `json:"max_run_time,omitempty"`

	// OnFailure is the policy for the failure of a dependency.
	OnFailure OnFailure `json:"on_failure,omitempty"`

	// OnLost is the place to which a lost job returns. Empty means [OnLostFirst].
	OnLost OnLost `json:"on_lost,omitempty"`

	// Parents are the jids of [DependsOn], in their order, complete or not, if the job was put with
	// an OnFailure.
	Parents []string `json:"parents,omitempty"`

	// StartBy is when the job is deleted unless a worker has taken it.
	StartBy time.Time `json:"start_by,omitzero"`

	// TTL is when the job is deleted in any state.
	TTL time.Time `json:"ttl,omitzero"`

	// Unique is the key of the job's put. The job may no longer hold it.
	Unique *UniqueClaim `json:"unique,omitempty"`

	// Weight is the number of turns of the tenant, or 0 without one.
	Weight Weight `json:"weight,omitempty"`
}

// A UniqueClaim is the key claimed by a job: see [Unique].
type UniqueClaim struct {
	// Key is the key: the parts as a JSON array, or a text made of the klass and the data.
	Key string `json:"key"`

	// UntilStarted reports whether the job releases the key while it runs.
	UntilStarted bool `json:"until_started,omitempty"`

	// For is how long the job holds the key after the put, or 0.
	For time.Duration `json:"for,omitempty"`
}

// MarshalJSON writes durations as text, such as "1m30s" or "forever".
func (o JobOptions) MarshalJSON() ([]byte, error) { return units.Marshal(o) }

// UnmarshalJSON reads the output of MarshalJSON.
func (o *JobOptions) UnmarshalJSON(text []byte) error {
	*o = JobOptions{}
	return units.Unmarshal(text, o)
}

// applyStored sets the fields of a job that show its stored options. The others are set already.
func (j *Job) applyStored(o *jobopts.Options) {
	dropPast(o, j.History)
	j.Headers = o.Headers
	j.ends = max(o.Ends.Int(), 0)
	if o.Batch != nil {
		size := o.Batch.Total.Int()
		j.BatchSize = &size
	}
	if o.OnFailure != nil {
		j.FailedDependencies = failuresOf(o.OnFailure.Failed)
	}
	j.Options = shownOptions(o)
	j.Until = j.until()
}

// shownOptions returns stored options as a job shows them.
func shownOptions(o *jobopts.Options) JobOptions {
	shown := JobOptions{
		TTL: o.TTL.Time(), StartBy: o.StartBy.Time(),
		KeepFor: (*time.Duration)(o.KeepFor), KeepFailedFor: (*time.Duration)(o.KeepFailedFor),
		LockTime: storedTime(o.LockTime), MaxRunTime: storedTime(o.MaxRunTime),
		Limits: wire.Strings(o.Limits), OnLost: OnLost(o.OnLost),
	}
	if o.Fair != nil {
		shown.Fair, shown.Weight = string(o.Fair.Tenant), Weight(cmp.Or(o.Fair.Weight, 1))
	}
	if o.OnFailure != nil {
		shown.OnFailure, shown.Parents = OnFailure(o.OnFailure.Do), o.OnFailure.Of
	}
	if c := o.Claim; c != nil && c.Key != "" {
		shown.Unique = &UniqueClaim{Key: c.Key, UntilStarted: c.Mode == jobopts.UntilStarted}
		if c.Mode == jobopts.For {
			shown.Unique.For = wire.Number(c.Seconds).Duration()
		}
	}
	return shown
}

// storedTime returns a stored duration, or 0 if there is none.
func storedTime(s *jobopts.Span) time.Duration {
	if s == nil {
		return 0
	}
	return max(time.Duration(*s), 0)
}

// given returns the options as those of a put.
func (o *JobOptions) given() jobopts.Options {
	given := jobopts.Options{
		KeepFor: (*jobopts.Span)(o.KeepFor), KeepFailedFor: (*jobopts.Span)(o.KeepFailedFor),
		OnLost: string(o.OnLost),
	}
	if o.LockTime > 0 {
		LockTime(o.LockTime).applyPut(&given)
	}
	if o.MaxRunTime > 0 {
		MaxRunTime(o.MaxRunTime).applyPut(&given)
	}
	if len(o.Limits) > 0 {
		o.Limits.applyPut(&given)
	}
	if o.Fair != "" {
		Fair(o.Fair, cmp.Or(o.Weight, 1)).applyPut(&given)
	}
	if u := o.Unique; u != nil {
		given.Unique = &jobopts.Unique{Key: u.Key, UntilStarted: u.UntilStarted}
		if u.For != 0 {
			given.Unique.For = &u.For
		}
	}
	o.OnFailure.applyPut(&given)
	return given
}

// givenOptions gives a put all options at once.
type givenOptions jobopts.Options

func (o givenOptions) applyPut(given *jobopts.Options) {
	later := jobopts.Options(o)
	given.Merge(&later)
}
