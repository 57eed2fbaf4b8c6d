package doctor

import (
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
)

// A Kind is the kind of damage or danger of a [Finding]. Programs may rely on it: it does not
// change.
type Kind string

// The kinds of findings about keys.
const (
	// KindLost is a job that is missing from the set or list that its state names.
	KindLost Kind = "lost"
	// KindMisplaced is a job in a set or a list where it does not belong.
	KindMisplaced Kind = "misplaced"
	// KindGhost is a member of a set or a list whose job has no record.
	KindGhost Kind = "ghost"
	// KindDuplicate is a failed job that is in its group twice.
	KindDuplicate Kind = "duplicate"
	// KindIncomplete is a job's record that lacks fields that every job has.
	KindIncomplete Kind = "incomplete"
	// KindNoHistory is a job without a history.
	KindNoHistory Kind = "no_history"
	// KindOrphan is a history whose job has no record.
	KindOrphan Kind = "orphan"

	// KindNoWorker is a running job that names no worker.
	KindNoWorker Kind = "no_worker"
	// KindLockDiffers is a lock on whose end the job, its queue and its worker disagree.
	KindLockDiffers Kind = "lock_differs"
	// KindLockUnlisted is a running job that is not among the jobs of its worker.
	KindLockUnlisted Kind = "lock_unlisted"
	// KindLockLeft is a job among those of a worker that does not hold it. A timeout leaves it.
	KindLockLeft Kind = "lock_left"

	// KindDependencyOneSided is a dependency that only one of the two jobs knows about.
	KindDependencyOneSided Kind = "dependency_one_sided"
	// KindDependencyOver is a dependency on a job that is complete or gone.
	KindDependencyOver Kind = "dependency_over"
	// KindDependencyLeft is a dependency of a job that does not wait for others, or is gone.
	KindDependencyLeft Kind = "dependency_left"
	// KindWaitsForNothing is a job that waits for others but has no dependencies.
	KindWaitsForNothing Kind = "waits_for_nothing"

	// KindTagLacking is a job that is not among those of one of its tags.
	KindTagLacking Kind = "tag_lacking"
	// KindTagExtra is a job among those of a tag that it does not have.
	KindTagExtra Kind = "tag_extra"
	// KindTagCount is a wrong counter of a tag.
	KindTagCount Kind = "tag_count"
	// KindQueueUnlisted is a queue with jobs that is not among the known queues, so that workers of
	// patterns don't find it.
	KindQueueUnlisted Kind = "queue_unlisted"
	// KindTimeImpossible is a scheduled or recurring job whose time is none.
	KindTimeImpossible Kind = "time_impossible"
	// KindOptionsDamaged is a job whose options can't be read.
	KindOptionsDamaged Kind = "options_damaged"
	// KindGroupUnlisted is a failure group with jobs that is not among the known groups.
	KindGroupUnlisted Kind = "group_unlisted"
	// KindGroupEmpty is a known failure group without jobs.
	KindGroupEmpty Kind = "group_empty"

	// KindUntold is a job with a [qless.OnFailure] that was not notified of a failed dependency.
	// Scripts of other clients leave it.
	KindUntold Kind = "untold"
	// KindDeadlineLacking is a job whose lifetime no sweep would enforce. Other clients' scripts
	// leave it when they complete a job with a KeepFor.
	KindDeadlineLacking Kind = "deadline_lacking"
	// KindClaimLacking is a job whose unique key no job holds. Scripts of other clients leave it.
	KindClaimLacking Kind = "claim_lacking"
	// KindSlotLacking is a running job without a slot of one of its limits. A limit that was set
	// while the job ran leaves it.
	KindSlotLacking Kind = "slot_lacking"
	// KindParkedLacking is a job that waits for a limit but is not among its parked jobs.
	KindParkedLacking Kind = "parked_lacking"
	// KindLimitDamaged is a limit whose definition can't be read.
	KindLimitDamaged Kind = "limit_damaged"
	// KindStatsDamaged is a figure of a queue's statistics that is unreadable or impossible.
	KindStatsDamaged Kind = "stats_damaged"
	// KindRatesDamaged is a figure of the rates that can't be read.
	KindRatesDamaged Kind = "rates_damaged"
	// KindShareDamaged is an impossible end of a tenant's turn.
	KindShareDamaged Kind = "share_damaged"
	// KindNoExpiry is a key that should expire but does not.
	KindNoExpiry Kind = "no_expiry"
	// KindScheduleEmpty is a registered schedule without data.
	KindScheduleEmpty Kind = "schedule_empty"
	// KindWrongType is a key with a value of a wrong type.
	KindWrongType Kind = "wrong_type"
	// KindUnknownKey is a key that no known program uses.
	KindUnknownKey Kind = "unknown_key"
	// KindInnerNamespace is another namespace whose name begins with that of this one.
	KindInnerNamespace Kind = "inner_namespace"

	// KindLifeOver is a job that still exists a minute after its life was over.
	KindLifeOver Kind = "life_over"
	// KindOverdue are jobs that fell due or lost their locks over a minute ago, and were not moved.
	KindOverdue Kind = "overdue"
	// KindFailedUnkept are failed jobs that are older or more numerous than the settings allow.
	KindFailedUnkept Kind = "failed_unkept"
	// KindUnsettled is a job that ended over a minute ago without notifying all of its dependents.
	KindUnsettled Kind = "unsettled"
	// KindTrackedGone is a tracked job that is gone. Deletions leave it.
	KindTrackedGone Kind = "tracked_gone"
	// KindDeadlineLeft is a deadline of a job that has no lifetime, or is gone.
	KindDeadlineLeft Kind = "deadline_left"
	// KindFiledLeft is a job filed as failed that has not failed.
	KindFiledLeft Kind = "filed_left"
	// KindClaimLeft is a claim on a unique key that is no longer in force. Other clients' scripts
	// leave it.
	KindClaimLeft Kind = "claim_left"
	// KindSlotLeft is a slot of a limit whose job is not running. Other clients' scripts leave it.
	KindSlotLeft Kind = "slot_left"
	// KindParkedLeft is a job among those parked at a limit that does not wait for it.
	KindParkedLeft Kind = "parked_left"
	// KindShareLeft are turns of tenants without waiting jobs. The next put removes them.
	KindShareLeft Kind = "share_left"
	// KindIdleDead is the entry of an idle worker that is gone.
	KindIdleDead Kind = "idle_dead"
	// KindClaimDead is the claim on a queue's next due job of a worker that is gone.
	KindClaimDead Kind = "claim_dead"
)

// The kinds of findings about settings and the server.
const (
	// KindSettingUnknown is a setting that no known client reads.
	KindSettingUnknown Kind = "setting_unknown"
	// KindSettingInvalid is a setting whose value is invalid.
	KindSettingInvalid Kind = "setting_invalid"
	// KindSettingDangerous is a setting with a value that is likely to do harm.
	KindSettingDangerous Kind = "setting_dangerous"
	// KindRefuses is a server that takes no writes, such as a replica.
	KindRefuses Kind = "refuses"
	// KindEviction is a server that may delete keys when it is full.
	KindEviction Kind = "eviction"
	// KindNoPersistence is a server that keeps nothing on disk.
	KindNoPersistence Kind = "no_persistence"
	// KindPersistenceFailed is a server that failed to write to its disk.
	KindPersistenceFailed Kind = "persistence_failed"
	// KindOldServer is a server that is too old.
	KindOldServer Kind = "old_server"
	// KindNewServer is a server that is newer than all that the tests ran on.
	KindNewServer Kind = "new_server"
	// KindClockSkew is a worker whose clock is ahead of the server's.
	KindClockSkew Kind = "clock_skew"
)

// A Severity tells how bad a finding is.
type Severity string

const (
	// Broken findings must never occur: a job may be lost, run at the wrong time, or be shown
	// wrongly.
	Broken Severity = "broken"

	// Leftover findings occur in normal operation. They do no harm but take up memory.
	Leftover Severity = "leftover"

	// Warning findings are about settings and the server. They do no harm yet but are likely to.
	Warning Severity = "warning"
)

// A Finding is one case of damage or danger.
type Finding struct {
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`

	// Key is the whole key. For a setting, it is the key of all settings. It is empty for the server.
	Key string `json:"key,omitempty"`

	// Member is the member of the key concerned, if any: a jid, a tag, a worker or a setting.
	Member string `json:"member,omitempty"`

	// JID is the jid of the job concerned, if any.
	JID string `json:"jid,omitempty"`

	// Queue is the queue that a lost job belongs to.
	Queue string `json:"queue,omitempty"`

	// Sentence describes the finding in words.
	Sentence string `json:"sentence"`

	// Fixable is true if [Fix] can repair it.
	Fixable bool `json:"fixable"`
}

// A meaning describes a kind. KEY, MEMBER and DETAILS in its words are placeholders.
type meaning struct {
	severity Severity
	words    string
}

var meanings = map[Kind]meaning{
	KindLost:       {Broken, "By its record, the job MEMBER belongs in DETAILS, but it is not there."},
	KindMisplaced:  {Broken, "KEY has the job MEMBER, which by its record belongs in DETAILS."},
	KindGhost:      {Broken, "KEY has the job MEMBER, which has no record."},
	KindDuplicate:  {Broken, "The failure group KEY has the job MEMBER more than once."},
	KindIncomplete: {Broken, "The record KEY is incomplete: it has DETAILS."},
	KindNoHistory:  {Broken, "The job MEMBER has no history."},
	KindOrphan:     {Broken, "KEY is the history of a job that has no record."},

	KindNoWorker: {Broken, "The job MEMBER is running but names no worker."},
	KindLockDiffers: {Broken, "The job MEMBER, its queue and its worker disagree" +
		" on when its lock expires."},
	KindLockUnlisted: {Leftover, "The job MEMBER is running" +
		" but is not among the jobs of its worker DETAILS."},
	KindLockLeft: {Leftover, "KEY has the job MEMBER (DETAILS), which the worker does not hold."},

	KindDependencyOneSided: {Broken, "KEY has the dependency MEMBER, which DETAILS lacks."},
	KindDependencyOver:     {Broken, "KEY has the dependency MEMBER on a job that is DETAILS."},
	KindDependencyLeft:     {Broken, "KEY has the dependency MEMBER of a job that is DETAILS."},
	KindWaitsForNothing:    {Broken, "The job MEMBER waits for others but has no dependencies."},

	KindTagLacking:     {Broken, "The job MEMBER is not among the jobs of its tags DETAILS."},
	KindTagExtra:       {Broken, "KEY has the job MEMBER, which does not have the tag."},
	KindTagCount:       {Broken, "The counter of the tag MEMBER is DETAILS."},
	KindQueueUnlisted:  {Broken, "The queue DETAILS has jobs but is not among the queues."},
	KindTimeImpossible: {Broken, "KEY has the job MEMBER for a time that is none: DETAILS."},
	KindOptionsDamaged: {Broken, "The options of the job MEMBER can't be read: DETAILS."},
	KindGroupUnlisted:  {Broken, "KEY has failed jobs but is not among the failure groups."},
	KindGroupEmpty:     {Broken, "The failure group MEMBER is listed but has no jobs."},

	KindDeadlineLacking: {Leftover, "The job MEMBER has a lifetime that no sweep would enforce."},
	KindClaimLacking:    {Leftover, "No job holds the unique key DETAILS of the job MEMBER."},
	KindSlotLacking: {Leftover, "The job MEMBER is running" +
		" but has no slot of its limit DETAILS."},
	KindParkedLacking: {Broken, "The job MEMBER waits for the limit DETAILS," +
		" which does not know it."},
	KindLimitDamaged:  {Broken, "The definition of the limit MEMBER can't be read: DETAILS."},
	KindStatsDamaged:  {Broken, "The figure MEMBER of KEY is impossible: DETAILS."},
	KindRatesDamaged:  {Broken, "The rates MEMBER of KEY can't be read: DETAILS."},
	KindShareDamaged:  {Broken, "The turn of the tenant MEMBER in KEY can't end at DETAILS."},
	KindNoExpiry:      {Broken, "KEY should expire but does not."},
	KindScheduleEmpty: {Broken, "The schedule MEMBER is registered but has no data."},
	KindWrongType:     {Broken, "KEY holds DETAILS."},
	KindUnknownKey:    {Warning, "KEY is a key that no known program uses."},
	KindInnerNamespace: {Warning, "The keys that begin with KEY look like another namespace:" +
		" its name should not begin with the name of this one."},

	KindLifeOver: {Leftover, "The life of the job MEMBER, which is DETAILS, is over:" +
		" a sweep deletes it, or fails it if others depend on it."},
	KindOverdue: {Leftover, "KEY has DETAILS overdue by more than a minute," +
		" which no worker has asked for: a sweep of the queue moves them."},
	KindFailedUnkept: {Leftover, "KEY has failed jobs that the settings do not keep:" +
		" a sweep deletes them."},
	KindUnsettled: {Leftover, "Not all jobs that wait for MEMBER, which is DETAILS, were notified:" +
		" a sweep notifies them."},
	KindTrackedGone: {Leftover, "The job MEMBER is tracked but gone."},
	KindUntold: {Leftover, "The job MEMBER was not notified that DETAILS, which it waits for," +
		" has failed: a sweep notifies it."},
	KindDeadlineLeft: {Leftover, "A deadline is recorded for the job MEMBER," +
		" which has no lifetime or is gone."},
	KindFiledLeft: {Leftover, "The job MEMBER is filed as failed but is DETAILS."},
	KindClaimLeft: {Leftover, "KEY is a claim that is no longer in force."},
	KindSlotLeft: {Leftover, "KEY has a slot for the job MEMBER," +
		" which is not running: it is DETAILS."},
	KindParkedLeft: {Leftover, "KEY has the job MEMBER," +
		" which does not wait for the limit: it is DETAILS."},
	KindShareLeft: {Leftover, "KEY has turns of tenants without waiting jobs."},
	KindIdleDead:  {Leftover, "KEY has the idle worker MEMBER, which is gone."},
	KindClaimDead: {Leftover, "KEY is a claim of the worker DETAILS, which is gone."},

	KindSettingUnknown:   {Warning, "No known client reads the setting MEMBER."},
	KindSettingInvalid:   {Warning, "The value of the setting MEMBER is invalid: DETAILS."},
	KindSettingDangerous: {Warning, "The setting MEMBER is DETAILS."},
	KindRefuses:          {Broken, "The server takes no writes: DETAILS."},
	KindEviction: {Warning, "The server may delete any key when it is full:" +
		" its maxmemory-policy is DETAILS, not noeviction."},
	KindNoPersistence:     {Warning, "The server keeps nothing on disk: a restart loses all jobs."},
	KindPersistenceFailed: {Warning, "The server could not write to its disk: DETAILS."},
	KindOldServer: {Warning, "The server is Redis DETAILS," +
		" but " + redisx.OldestServer + " or later is required."},
	KindNewServer: {Warning, "The server is DETAILS, which is newer than" +
		" those that this version was tested on."},
	KindClockSkew: {Warning, "The clock of the worker MEMBER is ahead" +
		" of the server's by DETAILS."},
}

// newFinding returns a finding about a key, without the prefix, and perhaps a member.
func newFinding(prefix string, kind Kind, key, member, details string, fixable bool) Finding {
	switch kind {
	case KindDuplicate:
		member = strings.TrimPrefix(member, twice)
	case KindNoExpiry, KindLost:
		member = ""
	}
	f := Finding{
		Kind: kind, Severity: meanings[kind].severity, Member: member,
		JID: kind.jidIn(key, member), Fixable: fixable,
	}
	if key != "" {
		f.Key = prefix + key
	}
	if kind == KindLost {
		f.Queue = queueOfKey(prefix, details)
	}
	named := member
	if named == "" {
		named = f.JID
	}
	f.Sentence = strings.NewReplacer("KEY", f.Key, "MEMBER", named, "DETAILS", details).
		Replace(meanings[kind].words)
	return f
}

// item returns the item to check again for this finding.
func (f *Finding) item(prefix string) item {
	i := item{strings.TrimPrefix(f.Key, prefix), f.Member}
	switch f.Kind {
	case KindDuplicate:
		i.member = twice + i.member
	case KindNoExpiry:
		i.member = classOf(i.key, "").seconds
	}
	return i
}

// keyType returns the type of the keys of findings of a kind, as far as it tells a job from its
// lists.
func (k Kind) keyType() string {
	switch k {
	case KindOrphan:
		return keys.List
	case KindDependencyOneSided, KindDependencyOver, KindDependencyLeft:
		return keys.Set
	case KindWrongType:
		return ""
	}
	return keys.Hash
}

// jidIn returns the jid that a key, without the prefix, or its member names, or the empty string.
func (k Kind) jidIn(key, member string) string {
	found, _ := keys.Of(key, k.keyType())
	jid := found.Name("jid")
	if jid == "" && found.Kind != nil && found.Members == "jid" {
		return member
	}
	return jid
}

// String returns the kind and the sentence.
func (f Finding) String() string { return fmt.Sprintf("%s: %s", f.Kind, f.Sentence) }
