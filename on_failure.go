package qless

import (
	"encoding/json"
	"slices"
	"strings"
)

// OnFailure says what becomes of a job when one that it waits for ([DependsOn]) fails for good: by
// [Job.Fail] and the like, or because it has no retries left. The default is [OnFailureWait], or
// what the job had. If one has failed already when the job is put, that counts as well.
//
// A put with an OnFailure, even with the default, also records which jobs it waits for: see the
// Parents of [Job].
//
// One call tells about 200 jobs of a failure. If there are more, a worker and [Client.End] tell the
// rest at once. After any other call, later ones tell the rest: every call that completes a job, each
// running worker once a minute, and [Client.Sweep].
//
// If a client with another script fails a job, those that wait for it go on waiting until
// [Client.Sweep] is called.
type OnFailure string

const (
	// OnFailureWait keeps the job waiting until the failed job is unfailed and complete.
	OnFailureWait OnFailure = "wait"

	// OnFailureRun counts a failed job as done. When none is left to wait for, the job runs, and
	// finds those that failed in its FailedDependencies. If one of these is unfailed later, nothing
	// changes for this job.
	OnFailureRun OnFailure = "run"

	// OnFailureFail fails the job too, in the group failed-dependency, and then the jobs that wait
	// for this one, as their own OnFailure says. When the job is unfailed, it runs without waiting
	// for anything.
	OnFailureFail OnFailure = "fail"
)

func (o OnFailure) applyPut(c *callOptions)  { c.onFailure = o }
func (o OnFailure) applyNext(c *callOptions) { c.onFailure = o }

// check returns an error if the option is set and unknown.
func (o OnFailure) check(op, jid string) error {
	switch o {
	case "", OnFailureWait, OnFailureRun, OnFailureFail:
		return nil
	}
	return invalid(op, jid, "the OnFailure %q is unknown", string(o))
}

// A FailedDependency is a job that another one waited for and that has failed.
type FailedDependency struct {
	JID   string `json:"jid"`
	Group string `json:"group"`
}

// A policy is what a job with an OnFailure stores: see lua/lib/policies.lua.
type policy struct {
	Do     OnFailure         `json:"do"`
	Of     []string          `json:"of,omitempty"`
	Failed map[string]string `json:"failed,omitempty"`
}

// UnmarshalJSON reads what can be read.
func (p *policy) UnmarshalJSON(raw []byte) error {
	type plain policy
	*p = policy{}
	_ = json.Unmarshal(raw, (*plain)(p))
	return nil
}

// policy returns what the job of a call stores, or nil.
func (c *callOptions) policy() *policy {
	if c.onFailure == "" {
		return nil
	}
	return &policy{Do: c.onFailure, Of: c.depends}
}

// failures returns the jobs that have failed, by jid.
func (p *policy) failures() []FailedDependency {
	var failed []FailedDependency
	for jid, group := range p.Failed {
		failed = append(failed, FailedDependency{JID: jid, Group: group})
	}
	slices.SortFunc(failed, func(a, b FailedDependency) int { return strings.Compare(a.JID, b.JID) })
	return failed
}
