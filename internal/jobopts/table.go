package jobopts

import "slices"

// A Row describes an option.
type Row struct {
	Name string // in package qless
	Doc  string // in docs/extensions.md, with a link, if the row has a Key

	// On the command line, in files and forms. Without a Key, only programs can give the option.
	Key   string   // in files and forms
	Flag  string   // on the command line, if not the Key with dashes
	Usage string   // the help of the flag
	Words []string // the possible values, if few
	Comma bool     // commas separate several values
	Moves bool     // also an option of moves

	// In the field x:o of a job. Options without a Letter are arguments of commands that put jobs.
	Letter string
	Value  string // of the letter in the JSON, or empty for none
	Ends   bool   // an ended job loses the option if put again
	None   string // in files, as JSON: the value that removes the option

	// Of a job, for people.
	Field string // the path in qless.JobOptions
	Label string

	value  func(o *Options) any   // a pointer to the given value
	stored func(o *Options) any   // a pointer to the value of the letter, if different
	check  func(o *Options) error // nil if all values are valid
}

// endless is the None of options that are times.
const endless = `"forever"`

// rowsWith returns the rows of the table with a property.
func rowsWith(has func(r *Row) bool) []*Row {
	return slices.DeleteFunc(slices.Clone(Table), func(r *Row) bool { return !has(r) })
}

// Table has a row for each option, in the order of checks, of letters and of display.
var Table = []*Row{
	{
		Name: "JID", Doc: "`JID`", Key: "jid", Usage: "its id (default: a new random one)",
		value: func(o *Options) any { return &o.JID }, check: checkOwnJID,
	},
	{
		Name: "If", Doc: "[`If`](unique.md#put-if-absent)", Key: "if",
		Words: []string{ifAbsent, ifFinished, ifNotRunning}, Moves: true,
		Usage: "put it only if the job with its jid is in this state",
		value: func(o *Options) any { return &o.If }, check: checkIf,
	},
	{
		Name: "Priority", Doc: "`Priority`", Key: "priority",
		Usage: "higher ones are popped first", Moves: true,
		value: func(o *Options) any { return &o.Priority },
		check: func(o *Options) error { return checkNumber("priority", o.Priority, minPriority) },
	},
	{
		Name: "Delay", Doc: "`Delay`", Key: "delay",
		Usage: "how long until it can be popped", Moves: true,
		value: func(o *Options) any { return &o.Delay }, check: checkDelay,
	},
	{
		Name: "At", Doc: "`At`", Key: "at", Usage: "when it can be popped, as in 2026-11-22T18:00:00Z",
		Moves: true,
		value: func(o *Options) any { return &o.At }, check: checkAt,
	},
	{
		Name: "Retries", Doc: "`Retries`", Key: "retries",
		Usage: "how often it may be retried (default 5)", Moves: true,
		value: func(o *Options) any { return &o.Retries },
		check: func(o *Options) error { return checkNumber("retries", o.Retries, 0) },
	},
	{
		Name: "Tags", Doc: "`Tags`", Key: "tags", Flag: "tag",
		Usage: "a tag; may be repeated", Moves: true,
		value: func(o *Options) any { return &o.Tags },
		check: func(o *Options) error { return checkNames("tag", o.Tags) },
	},
	{
		Name: "DependsOn", Doc: "`DependsOn`", Key: "depends", Flag: "depends-on",
		Usage: "jids of the jobs that it waits for", Comma: true,
		value: func(o *Options) any { return &o.DependsOn }, check: checkDependsOn,
	},
	{
		Name: "DependsOn.MustExist", Doc: "`DependsOn.MustExist`", Key: "must_exist",
		Usage: "put it only if the jobs that it waits for exist",
		value: func(o *Options) any { return &o.MustExist }, check: checkMustExist,
	},
	{
		Name: "OnFailure", Doc: "[`OnFailure`](failures.md#when-a-job-that-others-wait-for-fails)",
		Key: "on_failure", Words: []string{"wait", "run", "fail"}, Moves: true,
		Usage:  "what to do when a job fails that it waits for",
		Letter: "f",
		Value:  "`{\"do\": \"wait\", \"run\" or \"fail\", \"of\": [jid], \"failed\": {jid: group}}`",
		Field:  "OnFailure", Label: "If one that it waits for fails",
		value:  func(o *Options) any { return &o.policy().Do },
		stored: func(o *Options) any { return &o.OnFailure }, check: checkOnFailure,
	},
	{
		Name: "Headers", Doc: "[`Headers`](headers.md)", Key: "headers", Flag: "header",
		Usage: "a header, as in key=value; may be repeated", Moves: true,
		Letter: "h", Value: "`{key: text}`", None: `{}`,
		value: func(o *Options) any { return &o.Headers }, check: checkHeaders,
	},
	{
		Name: "Fair", Doc: "[`Fair`](fair.md)", Key: "fair", Flag: "fair",
		Usage: "the tenant whose turn it takes", Moves: true,
		Letter: "g", Value: "`{\"t\": tenant, \"w\": weight}`",
		Field: "Fair", Label: "Tenant",
		value:  func(o *Options) any { return &o.fair().Tenant },
		stored: func(o *Options) any { return &o.Fair }, check: checkFair,
	},
	{
		Name: "Weight", Doc: "[`Weight`](fair.md)", Key: "weight", Moves: true,
		Usage: "how many turns the tenant gets",
		Field: "Weight", Label: "Turns of the tenant",
		value: func(o *Options) any { return &o.fair().Weight },
	},
	{
		Name: "Limits", Doc: "[`Limits`](limits.md)", Key: "limits",
		Usage: "names of the limits that it needs room in", Comma: true, Moves: true,
		Letter: "c", Value: "`[name]`",
		Field: "Limits", Label: "Limits",
		value: func(o *Options) any { return &o.Limits }, check: checkLimits,
	},
	{
		Name: "LockTime", Doc: "[`LockTime`](lock-time.md)", Key: "lock_time", Moves: true,
		Usage:  "how long each lock lasts (default: as its queue)",
		Letter: "l", Value: "seconds",
		Field: "LockTime", Label: "Each lock lasts",
		value: func(o *Options) any { return &o.LockTime }, check: checkLockTime,
	},
	{
		Name: "OnLost", Doc: "[`OnLost`](lock-time.md)", Key: "on_lost", Moves: true,
		Words: []string{"first", "last", "place"}, Usage: "where it goes when its lock is lost",
		Letter: "q", Value: "`\"last\"` or `\"place\"`", None: `"first"`,
		Field: "OnLost", Label: "After a lost lock",
		value: func(o *Options) any { return &o.OnLost }, check: checkOnLost,
	},
	{
		Name: "StartBy", Doc: "[`StartBy`](lifetimes.md)", Key: "start_by", Moves: true,
		Usage:  "when it is gone unless a worker has it",
		Letter: "s", Value: "time; in a put, seconds", Ends: true, None: endless,
		Field: "StartBy", Label: "Started by",
		value: func(o *Options) any { return &o.StartBy },
		check: func(o *Options) error { return o.checkDeadline("StartBy", o.StartBy) },
	},
	{
		Name: "TTL", Doc: "[`TTL`](lifetimes.md)", Key: "ttl", Moves: true,
		Usage:  "when it is gone, whatever its state",
		Letter: "t", Value: "time; in a put, seconds", Ends: true, None: endless,
		Field: "TTL", Label: "Gone by",
		value: func(o *Options) any { return &o.TTL },
		check: func(o *Options) error { return o.checkDeadline("TTL", o.TTL) },
	},
	{
		Name: "KeepFor", Doc: "[`KeepFor`](lifetimes.md)", Key: "keep_for", Moves: true,
		Usage:  "how long it is kept once complete",
		Letter: "k", Value: "seconds", None: endless,
		Field: "KeepFor", Label: "Kept when complete for",
		value: func(o *Options) any { return &o.KeepFor },
		check: func(o *Options) error { return checkSpan("KeepFor", o.KeepFor, 0) },
	},
	{
		Name: "KeepFailedFor", Doc: "[`KeepFailedFor`](lifetimes.md)", Key: "keep_failed_for",
		Usage: `how long it is kept once failed, or "forever"`, Moves: true,
		Letter: "K", Value: "seconds, or -1 for no end",
		Field: "KeepFailedFor", Label: "Kept when failed for",
		value: func(o *Options) any { return &o.KeepFailedFor }, check: checkKeepFailedFor,
	},
	{
		Name: "MaxRunTime", Doc: "[`MaxRunTime`](lifetimes.md)", Key: "max_run_time", Moves: true,
		Usage:  "how long its handler may run",
		Letter: "e", Value: "seconds", None: endless,
		Field: "MaxRunTime", Label: "May run for",
		value: func(o *Options) any { return &o.MaxRunTime },
		check: func(o *Options) error { return checkSpan("MaxRunTime", o.MaxRunTime, minLifetime) },
	},
	{
		Name: "Unique", Doc: "[`Unique`](unique.md#unique-keys)", Key: "unique",
		Usage:  "a part of its unique key, as JSON or text; may be repeated",
		Letter: "u", Value: "`{\"k\": key, \"m\": \"start\" or \"for\", \"d\": seconds}`; " +
			"`a`, `j` and `s` for [`Replace`](unique.md#debounce)",
		Field: "Unique.Key", Label: "Unique key",
		value:  func(o *Options) any { return &o.unique().Parts },
		stored: func(o *Options) any { return &o.Claim }, check: checkUnique,
	},
	{
		Name: "Unique", Doc: "[`Unique()`](unique.md#unique-keys)", Key: "unique_data",
		Usage: "make the unique key of its klass and data",
		value: func(o *Options) any { return o.unique() },
	},
	{
		Name: "UniqueOption.For", Doc: "[`Unique.For`](unique.md#unique-keys)", Key: "unique_for",
		Usage: "hold the unique key for this time",
		Field: "Unique.For", Label: "Holds the key for",
		value: func(o *Options) any { return &o.unique().For },
	},
	{
		Name: "UniqueOption.UntilStarted", Doc: "[`Unique.UntilStarted`](unique.md#unique-keys)",
		Key: "unique_until_started", Usage: "hold the unique key until it runs",
		Field: "Unique.UntilStarted", Label: "Holds the key until it is started",
		value: func(o *Options) any { return &o.unique().UntilStarted },
	},
	{
		Name: "UniqueOption.Replace", Doc: "[`Unique.Replace`](unique.md#debounce)", Key: "replace",
		Usage: "replace the job that holds the unique key",
		value: func(o *Options) any { return &o.unique().Replace },
	},
	{
		Name: "UniqueOption.KeepDue", Doc: "[`Unique.KeepDue`](unique.md#debounce)", Key: "keep_due",
		Usage: "with --replace: stay due when that one was",
		value: func(o *Options) any { return &o.unique().KeepDue },
	},
	{
		Name: "UniqueOption.Within", Doc: "[`Unique.Within`](unique.md#debounce)", Key: "within",
		Usage: "with --replace: fall due at most this long after the first put",
		value: func(o *Options) any { return &o.unique().Within },
	},
	{Doc: "the job is the callback of a [batch](batches.md)", Letter: "b", Value: "`{\"n\": members}`",
		stored: func(o *Options) any { return &o.Batch }},
	{Doc: "a job with an `OnFailure` " +
		"[waits for it](failures.md#when-a-job-that-others-wait-for-fails)", Letter: "d"},
	{Doc: "[`max-fails`](workq.md) of Workq", Letter: "n",
		Value: "number of calls", Ends: true, stored: func(o *Options) any { return &o.Ends }},
	{Doc: "it has [progress](results.md#progress)", Letter: "p"},
	{Doc: "it was passed on to another queue with a [result](results.md)", Letter: "r", Ends: true},
	{Doc: "a client [waits](results.md#waiting) for its end", Letter: "w", Ends: true,
		stored: func(o *Options) any { return &o.Waited }},
}
