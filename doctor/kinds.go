package doctor

import (
	_ "embed"
	"slices"
	"strings"
)

// A ReasonCode is the kind of a [Reason]. Codes do not change, so programs may rely on them.
type ReasonCode string

// Problems in a status, the gravest first.
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

// A Kind describes the reasons with a code. The texts are templates over the fields of a reason.
type Kind struct {
	Code    ReasonCode
	Gravity Gravity // the usual gravity

	Text  string // the sentence of [Explain] or [Examine], if not that of a status
	Line  string // the sentence of a status; if there are Lines, after the word queue and its name
	Lines string // the same for several queues, after their number and names

	Advice  string // what an operator can do
	Command string // the command for this; " | " separates alternatives
	Look    string // the command that a status suggests, if different
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

//go:embed reasons.txt
var table string

var kinds = readKinds(table)

// readKinds reads the table of reasons.
func readKinds(table string) (kinds []Kind) {
	var field *string
	for line := range strings.Lines(table) {
		text := strings.TrimSpace(line)
		name, rest, _ := strings.Cut(text, " ")
		switch {
		case text == "" || name == "#":
		case line[0] != ' ':
			kinds = append(kinds, Kind{Code: ReasonCode(name), Gravity: Gravity(rest)})
		case strings.HasPrefix(line, "    "):
			*field += " " + text
		default:
			k := &kinds[len(kinds)-1]
			field = map[string]*string{
				"text": &k.Text, "line": &k.Line, "lines": &k.Lines, "advice": &k.Advice,
				"command": &k.Command, "look": &k.Look,
			}[name]
			*field = strings.TrimSpace(rest)
		}
	}
	return kinds
}
