package doctor

import (
	"fmt"
	"strings"
)

// A Kind is the kind of damage or danger of a [Finding]. Programs may rely on it: it does not
// change.
type Kind string

// The kinds of findings about keys.
const (
	// KindLost is a job that is not in the set or list that its state names.
	KindLost Kind = "lost"
	// KindMisplaced is a job in a set or a list where it does not belong.
	KindMisplaced Kind = "misplaced"
	// KindGhost is a member of a set or a list whose job has no record.
	KindGhost Kind = "ghost"
	// KindDuplicate is a failed job that its group has twice.
	KindDuplicate Kind = "duplicate"
	// KindIncomplete is a record of a job that lacks what every job has.
	KindIncomplete Kind = "incomplete"
	// KindNoHistory is a job without a history.
	KindNoHistory Kind = "no_history"
	// KindOrphan is a history whose job has no record.
	KindOrphan Kind = "orphan"

	// KindNoWorker is a running job that names no worker.
	KindNoWorker Kind = "no_worker"
	// KindLockDiffers is a lock of which the job, its queue and its worker say different ends.
	KindLockDiffers Kind = "lock_differs"
	// KindLockUnlisted is a running job that is not among the jobs of its worker.
	KindLockUnlisted Kind = "lock_unlisted"
	// KindLockLeft is a job among those of a worker that does not have it. A timeout leaves it.
	KindLockLeft Kind = "lock_left"

	// KindDependencyOneSided is a dependency that only one of the two jobs knows.
	KindDependencyOneSided Kind = "dependency_one_sided"
	// KindDependencyOver is a dependency on a job that is complete or gone.
	KindDependencyOver Kind = "dependency_over"
	// KindDependencyLeft is a dependency of a job that waits for nothing, or is gone.
	KindDependencyLeft Kind = "dependency_left"
	// KindWaitsForNothing is a job that waits for others, without any.
	KindWaitsForNothing Kind = "waits_for_nothing"

	// KindTagLacking is a job that is not among those of one of its tags.
	KindTagLacking Kind = "tag_lacking"
	// KindTagExtra is a job among those of a tag that it has not.
	KindTagExtra Kind = "tag_extra"
	// KindTagCount is a wrong counter of a tag.
	KindTagCount Kind = "tag_count"
	// KindGroupUnlisted is a failure group with jobs that is not known.
	KindGroupUnlisted Kind = "group_unlisted"
	// KindGroupEmpty is a known failure group without jobs.
	KindGroupEmpty Kind = "group_empty"

	// KindUntold is a job with a [qless.OnFailure] that waits for one which has failed. A script of
	// another client leaves it.
	KindUntold Kind = "untold"
	// KindDeadlineLacking is a job whose lifetime no sweep would notice. Another client's script that
	// completes a job with a KeepFor leaves it.
	KindDeadlineLacking Kind = "deadline_lacking"
	// KindParkedLacking is a job that waits for a limit which does not know it.
	KindParkedLacking Kind = "parked_lacking"
	// KindLimitDamaged is a limit whose definition can't be read.
	KindLimitDamaged Kind = "limit_damaged"
	// KindStatsDamaged is a figure of a queue's statistics that can't be read, or be.
	KindStatsDamaged Kind = "stats_damaged"
	// KindRatesDamaged is a figure of the rates that can't be read.
	KindRatesDamaged Kind = "rates_damaged"
	// KindShareDamaged is the end of a tenant's turn that can't be.
	KindShareDamaged Kind = "share_damaged"
	// KindNoExpiry is a key that lasts for ever and should not.
	KindNoExpiry Kind = "no_expiry"
	// KindScheduleEmpty is a registered schedule of which nothing else is known.
	KindScheduleEmpty Kind = "schedule_empty"
	// KindWrongType is a key that holds something else than it should.
	KindWrongType Kind = "wrong_type"
	// KindUnknownKey is a key that no known program uses.
	KindUnknownKey Kind = "unknown_key"

	// KindTrackedGone is a tracked job that is gone. Deleting jobs leaves it.
	KindTrackedGone Kind = "tracked_gone"
	// KindDeadlineLeft is a noted end of a life of a job that has no lifetime, or is gone.
	KindDeadlineLeft Kind = "deadline_left"
	// KindFiledLeft is a job filed as failed that has not failed.
	KindFiledLeft Kind = "filed_left"
	// KindClaimLeft is a claim on a unique key that holds nothing. Other clients' scripts leave it.
	KindClaimLeft Kind = "claim_left"
	// KindSlotLeft is a slot of a limit whose job does not run. Other clients' scripts leave it.
	KindSlotLeft Kind = "slot_left"
	// KindParkedLeft is a job that a limit takes for parked and that is not.
	KindParkedLeft Kind = "parked_left"
	// KindShareLeft are the turns of tenants of whom no job waits. The next put removes them.
	KindShareLeft Kind = "share_left"
	// KindIdleDead is an entry of an idle worker that is gone.
	KindIdleDead Kind = "idle_dead"
	// KindClaimDead is a claim of a worker that is gone on what a queue has due next.
	KindClaimDead Kind = "claim_dead"
)

// The kinds of findings about settings and the server.
const (
	// KindSettingUnknown is a setting that no known client reads.
	KindSettingUnknown Kind = "setting_unknown"
	// KindSettingInvalid is a setting whose value means nothing.
	KindSettingInvalid Kind = "setting_invalid"
	// KindSettingDangerous is a setting with a value that is likely to do harm.
	KindSettingDangerous Kind = "setting_dangerous"
	// KindEviction is a server that may delete keys when it is full.
	KindEviction Kind = "eviction"
	// KindNoPersistence is a server that keeps nothing on disk.
	KindNoPersistence Kind = "no_persistence"
	// KindPersistenceFailed is a server that could not write to its disk.
	KindPersistenceFailed Kind = "persistence_failed"
	// KindOldServer is a server that is too old.
	KindOldServer Kind = "old_server"
	// KindReplica is a server that is a replica.
	KindReplica Kind = "replica"
	// KindClockSkew is a worker whose clock, or that of its client, is ahead of the server's.
	KindClockSkew Kind = "clock_skew"
)

// A Severity is how bad a finding is.
type Severity string

const (
	// Broken is what must never be: a job may be lost, run at the wrong time, or be shown wrongly.
	Broken Severity = "broken"

	// Leftover is what programs leave behind in the course of things. It does no harm but takes up
	// room.
	Leftover Severity = "leftover"

	// Warning is what works, and is likely to do harm one day: settings and the server.
	Warning Severity = "warning"
)

// A Finding is something that is wrong.
type Finding struct {
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`

	// Key is the whole key. For a setting it is that of the settings, and empty for the server.
	Key string `json:"key,omitempty"`

	// Member is the member of the key that it is about, if any: a jid, a tag, a worker, a setting.
	Member string `json:"member,omitempty"`

	// JID is the jid of the job that it is about, if any.
	JID string `json:"jid,omitempty"`

	// Sentence says it in words, for a person to read.
	Sentence string `json:"sentence"`

	// Fixable is true if [Fix] can repair it.
	Fixable bool `json:"fixable"`
}

// A meaning describes a kind. In words, KEY, MEMBER and DETAILS stand for what the finding is
// about.
type meaning struct {
	severity Severity
	words    string
}

var meanings = map[Kind]meaning{
	KindLost:       {Broken, "The job MEMBER belongs into DETAILS by its record, and is not there."},
	KindMisplaced:  {Broken, "KEY has the job MEMBER, which belongs into DETAILS by its record."},
	KindGhost:      {Broken, "KEY has MEMBER, and there is no record of such a job."},
	KindDuplicate:  {Broken, "The failure group KEY has the job MEMBER more than once."},
	KindIncomplete: {Broken, "The record KEY is not that of a whole job: it has DETAILS."},
	KindNoHistory:  {Broken, "The job MEMBER has no history."},
	KindOrphan:     {Broken, "KEY is the history of a job that has no record."},

	KindNoWorker: {Broken, "The job MEMBER runs, and names no worker."},
	KindLockDiffers: {Broken, "The job MEMBER, its queue and its worker do not agree" +
		" on when its lock ends."},
	KindLockUnlisted: {Leftover, "The job MEMBER runs," +
		" and is not among the jobs of its worker DETAILS."},
	KindLockLeft: {Leftover, "KEY has the job MEMBER (DETAILS), which the worker does not have."},

	KindDependencyOneSided: {Broken, "KEY has the dependency MEMBER, which DETAILS does not have."},
	KindDependencyOver:     {Broken, "KEY has the dependency MEMBER on a job that is DETAILS."},
	KindDependencyLeft:     {Broken, "KEY has the dependency MEMBER of a job that is DETAILS."},
	KindWaitsForNothing:    {Broken, "The job MEMBER waits for others, and there are none."},

	KindTagLacking:    {Broken, "The job MEMBER is not among the jobs of its tags DETAILS."},
	KindTagExtra:      {Broken, "KEY has the job MEMBER, which does not have the tag."},
	KindTagCount:      {Broken, "The counter of the tag MEMBER is DETAILS."},
	KindGroupUnlisted: {Broken, "KEY has failed jobs, and is not among the failure groups."},
	KindGroupEmpty:    {Broken, "The failure group MEMBER is listed, and has no jobs."},

	KindDeadlineLacking: {Leftover, "The job MEMBER has a lifetime that no sweep would notice."},
	KindParkedLacking: {Broken, "The job MEMBER waits for the limit DETAILS," +
		" which does not know it."},
	KindLimitDamaged:  {Broken, "The definition of the limit MEMBER can't be read: DETAILS."},
	KindStatsDamaged:  {Broken, "The figure MEMBER of KEY can't be: DETAILS."},
	KindRatesDamaged:  {Broken, "The rates MEMBER of KEY can't be read: DETAILS."},
	KindShareDamaged:  {Broken, "The turn of the tenant MEMBER in KEY can't end at DETAILS."},
	KindNoExpiry:      {Broken, "KEY should expire, and does not."},
	KindScheduleEmpty: {Broken, "The schedule MEMBER is registered, and nothing is known of it."},
	KindWrongType:     {Broken, "KEY holds DETAILS."},
	KindUnknownKey:    {Warning, "KEY is a key that no known program uses."},

	KindTrackedGone: {Leftover, "The job MEMBER is tracked, and is gone."},
	KindUntold: {Leftover, "The job MEMBER was not told that DETAILS, for which it waits," +
		" has failed: a sweep tells it."},
	KindDeadlineLeft: {Leftover, "The end of the job MEMBER is noted," +
		" which has no lifetime or is gone."},
	KindFiledLeft: {Leftover, "The job MEMBER is filed as failed, and is DETAILS."},
	KindClaimLeft: {Leftover, "KEY is a claim that holds nothing any more."},
	KindSlotLeft: {Leftover, "KEY has a slot of the job MEMBER," +
		" which does not run: it is DETAILS."},
	KindParkedLeft: {Leftover, "KEY has the job MEMBER," +
		" which does not wait for the limit: it is DETAILS."},
	KindShareLeft: {Leftover, "KEY has the turns of tenants of whom no job waits."},
	KindIdleDead:  {Leftover, "KEY has the idle worker MEMBER, which is gone."},
	KindClaimDead: {Leftover, "KEY is a claim of the worker DETAILS, which is gone."},

	KindSettingUnknown:   {Warning, "No known client reads the setting MEMBER."},
	KindSettingInvalid:   {Warning, "The value of the setting MEMBER, DETAILS, means nothing."},
	KindSettingDangerous: {Warning, "The setting MEMBER is DETAILS."},
	KindEviction: {Warning, "The server may delete any key when it is full:" +
		" its maxmemory-policy is DETAILS, not noeviction."},
	KindNoPersistence:     {Warning, "The server keeps nothing on disk: a restart loses all jobs."},
	KindPersistenceFailed: {Warning, "The server could not write to its disk: DETAILS."},
	KindOldServer: {Warning, "The server is Redis DETAILS," +
		" and 6.2 is the first one that works."},
	KindReplica: {Warning, "The server is a replica: it takes no writes."},
	KindClockSkew: {Warning, "The clock of the worker MEMBER is ahead" +
		" of the server's by DETAILS."},
}

// newFinding returns the finding of a check: about a key, without the prefix, and perhaps a member.
func newFinding(prefix string, kind Kind, key, member, details string, fixable bool) Finding {
	switch kind {
	case KindDuplicate:
		member = strings.TrimPrefix(member, twice)
	case KindNoExpiry, KindLost:
		member = ""
	}
	f := Finding{
		Kind: kind, Severity: meanings[kind].severity, Member: member, JID: jidIn(key, member),
		Fixable: fixable,
	}
	if key != "" {
		f.Key = prefix + key
	}
	named := member
	if named == "" {
		named = f.JID
	}
	f.Sentence = strings.NewReplacer("KEY", f.Key, "MEMBER", named, "DETAILS", details).
		Replace(meanings[kind].words)
	return f
}

// item returns what to check again to see whether there still is such a finding.
func (f *Finding) item(prefix string) item {
	i := item{strings.TrimPrefix(f.Key, prefix), f.Member}
	switch f.Kind {
	case KindDuplicate:
		i.member = twice + i.member
	case KindNoExpiry:
		i.member = classOf(i.key).seconds
	}
	return i
}

// jidIn returns the jid that a key, without the prefix, and a member are about, or the empty
// string.
func jidIn(key, member string) string {
	area, rest, _ := strings.Cut(key, ":")
	switch area {
	case "j":
		for _, list := range []string{historySuffix, dependentsSuffix, dependenciesSuffix} {
			rest = strings.TrimSuffix(rest, list)
		}
		return rest
	case "r":
		return rest
	case "q", "f", "t", "w", "completed", "tracked", "failed-jobs-list":
		return member
	case "x":
		if rest == "until" || strings.HasPrefix(rest, "limit:") {
			return member
		}
	}
	return ""
}

// String returns the sentence.
func (f Finding) String() string { return fmt.Sprintf("%s: %s", f.Kind, f.Sentence) }
