package keys

import "time"

// The types of keys.
const (
	String = "string"
	Hash   = "hash"
	List   = "list"
	Set    = "set"
	ZSet   = "zset"
)

// extension begins the keys unknown to classic clients.
const extension = "x:"

const day = 24 * time.Hour

// kinds are all kinds of keys. If several match a key, kinds with a suffix come first.
var kinds = func() (all []Kind) {
	for _, k := range []Kind{
		{Pattern: "completed", Type: ZSet, Members: "jid"},
		{Pattern: "config", Type: Hash},
		{Pattern: "failed-jobs-list", Type: ZSet, Members: "jid"},
		{Pattern: "failures", Type: Set},
		{Pattern: "paused_queues", Type: Set},
		{Pattern: "queues", Type: ZSet},
		{Pattern: "tags", Type: ZSet},
		{Pattern: "tracked", Type: ZSet, Members: "jid"},
		{Pattern: "workers", Type: ZSet},

		{Pattern: "j:<jid>-history", Type: List},
		{Pattern: "j:<jid>-dependents", Type: Set, Members: "jid"},
		{Pattern: "j:<jid>-dependencies", Type: Set, Members: "jid"},
		{Pattern: "j:<jid>", Type: Hash},
		{Pattern: "r:<jid>", Type: Hash},
		{Pattern: "q:<queue>-work", Type: ZSet, Members: "jid"},
		{Pattern: "q:<queue>-locks", Type: ZSet, Members: "jid"},
		{Pattern: "q:<queue>-scheduled", Type: ZSet, Members: "jid"},
		{Pattern: "q:<queue>-depends", Type: ZSet, Members: "jid"},
		{Pattern: "q:<queue>-recur", Type: ZSet, Members: "jid"},
		{Pattern: "q:<queue>-completed", Type: ZSet, Members: "jid"}, // of the script of qless-php
		{Pattern: "w:<worker>:jobs", Type: ZSet, Members: "jid"},
		{Pattern: "f:<group>", Type: List, Members: "jid"},
		{Pattern: "t:<tag>", Type: ZSet, Members: "jid"},
		{Pattern: "s:stats:<day>:<queue>", Type: Hash},
		{Pattern: "s:wait:<day>:<queue>", Type: Hash},
		{Pattern: "s:run:<day>:<queue>", Type: Hash},
		{Pattern: "topics<queue>", Type: Hash},

		{Pattern: "x:before:<key>", Type: String, Lasts: 7 * day},
		{Pattern: "x:due:<queue>", Type: String, Passing: true},
		{Pattern: "x:empty", Type: Hash, Lasts: time.Second, Passing: true},
		{Pattern: "x:fair:<priority>:<queue>", Type: ZSet},
		{Pattern: "x:filled", Type: Set, Lasts: time.Second, Passing: true},
		{Pattern: "x:follow:<id>", Type: Hash, Lasts: 3 * time.Minute, Passing: true},
		{Pattern: "x:history", Type: String, Lasts: 31 * day},
		{Pattern: "x:history:<queue>", Type: String, Lasts: 31 * day},
		{Pattern: "x:idle", Type: Set, Passing: true},
		{Pattern: "x:idle:<queue>", Type: ZSet, Passing: true},
		{Pattern: "x:limit:<limit>:held", Type: ZSet, Members: "jid"},
		{Pattern: "x:limit:<limit>:starts", Type: List},
		{Pattern: "x:limit:<limit>:wait", Type: ZSet, Members: "jid"},
		{Pattern: "x:limits", Type: Hash},
		{Pattern: "x:list:<list>", Type: ZSet, Passing: true},
		{Pattern: "x:listed:<list>", Type: Hash, Passing: true},
		{Pattern: "x:lmstfy:__throttler_keys__", Type: Hash},
		{Pattern: "x:lmstfy:l/<limiter>", Type: String},
		{Pattern: "x:lmstfy:tk/<tokens>", Type: Hash},
		{Pattern: "x:looked:<list>", Type: String, Lasts: time.Second, Passing: true},
		{Pattern: "x:outbox", Type: Hash, Lasts: day, Passing: true},
		{Pattern: "x:outbox:not:<jid>", Type: String, Lasts: 7 * day},
		{Pattern: "x:outbox:put", Type: ZSet},
		{Pattern: "x:queues", Type: ZSet},
		{Pattern: "x:rate:<queue>", Type: List},
		{Pattern: "x:rates:<minute>", Type: Hash, Lasts: 3 * day},
		{Pattern: "x:rates:sent:<run>", Type: String, Lasts: 30 * time.Minute},
		{Pattern: "x:recorded", Type: String, Lasts: 2 * time.Minute, Passing: true},
		{Pattern: "x:refused", Type: ZSet, Lasts: day},
		{Pattern: "x:relay", Type: String, Lasts: 2 * time.Second, Passing: true},
		{Pattern: "x:rest", Type: ZSet, Members: "jid"},
		{Pattern: "x:rest:<jid>", Type: Set, Members: "jid"},
		{Pattern: "x:schedule-ids", Type: ZSet},
		{Pattern: "x:schedule:<id>", Type: Hash},
		{Pattern: "x:schedules", Type: Hash},
		{Pattern: "x:stats:<day>:<queue>", Type: Hash},
		{Pattern: "x:sweep", Type: Hash},
		{Pattern: "x:swept", Type: String, Lasts: 5 * time.Minute, Passing: true},
		{Pattern: "x:topics", Type: Set},
		{Pattern: "x:unique:<key>", Type: String},
		{Pattern: "x:unrelayed", Type: String, Lasts: 10 * time.Second, Passing: true},
		{Pattern: "x:until", Type: ZSet, Members: "jid"},
		{Pattern: "x:worker:<worker>", Type: String, Lasts: 150 * time.Second, Passing: true},
	} {
		all = append(all, newKind(k))
	}
	return all
}()
