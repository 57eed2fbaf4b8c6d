package api

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
)

// A refusal is a command with its arguments after NOW, separated by bars, and the error that it
// returns in the keyspace of stage.
type refusal struct {
	line string
	text string
	kind error // nil means ErrInvalid
}

// thousandAndOne repeats a part of a line that many times, each with a number of its own.
func thousandAndOne(part string) string {
	var line strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&line, part, i)
	}
	return line.String()
}

// refusals has a call for each error that a script can raise, besides the complaints about the
// arguments of calls.
var refusals = []refusal{
	{"cancel|waiting|parent", `Cancel(): parent is a dependency of child but is not mentioned to be canceled`, qless.ErrHasDependents},
	{"complete|running|w1|q|{}|next", `Complete(): Odd number of additional args`, nil},
	{"complete|running|w1|q|{}|delay|1", `Complete(): "delay" cannot be used without a "next".`, nil},
	{"complete|running|w1|q|{}|tags|[]", `Complete(): "priority", "retries", "tags", "o" and "drop" need a "next"`, nil},
	{"complete|running|w1|q|{}|next|q|o|h", `Complete(): Arg "o" is not options: h`, nil},
	{`complete|running|w1|q|{}|next|q|depends|["x-dependents"]`, `Complete(): Arg "depends" names no job: x-dependents`, nil},
	{"complete|nowhere|w1|q|{}", `Complete(): Job nowhere running in another queue: false`, qless.ErrWrongQueue},
	{"complete|un\x00known|w1|q|{}", `Complete(): Job un`, qless.ErrNotFound},
	{"complete|unknown|w1|q|{}", `Complete(): Job unknown does not exist`, qless.ErrNotFound},
	{"complete|waiting|w1|q|{}", `Complete(): Job waiting is not currently running: waiting`, qless.ErrNotRunning},
	{"complete|theirs|w1|q|{}", `Complete(): Job theirs has been handed out to another worker: w2`, qless.ErrLockLost},
	{"complete|running|w1|other|{}", `Complete(): Job running running in another queue: q`, qless.ErrWrongQueue},
	{"depends|child|over|parent", `Depends(): Argument "command" must be "on" or "off"`, nil},
	{"depends|unknown|on|parent", `Depends(): Job unknown not in the depends state: false`, qless.ErrNotFound},
	{"depends|child|on|x-history", `Depends(): Arg "depends" names no job: x-history`, nil},
	{"depends|unknown|fewer", `Depends(): Job unknown not in the depends state: false`, qless.ErrNotFound},
	{"depends|batch|upon|after batch", `Depends(): Job batch would wait for itself`, nil},
	{`put|w1|q|parent|K|{}|0|checked|1|depends|["child"]`, `Put(): Job parent would wait for itself`, nil},
	{"depends|waiting|on|parent", `Depends(): Job waiting not in the depends state: waiting`, qless.ErrNotDepending},
	{"fail|nowhere|w1|g|m", `Fail(): Job nowhere is in no queue`, nil},
	{"fail|unknown|w1|g|m", `Fail(): Job unknown does not exist`, qless.ErrNotFound},
	{"fail|waiting|w1|g|m", `Fail(): Job waiting not currently running: waiting`, qless.ErrNotRunning},
	{"fail|theirs|w1|g|m", `Fail(): Job theirs running with another worker: w2`, qless.ErrLockLost},
	{"get", `Job(): no jid provided`, nil},
	{"heartbeat|nowhere|w1", `Heartbeat(): Job nowhere is in no queue`, nil},
	{"heartbeat|unknown|w1", `Heartbeat(): Job unknown does not exist`, qless.ErrNotFound},
	{"heartbeat|waiting|w1", `Heartbeat(): Job waiting not currently running: waiting`, qless.ErrNotRunning},
	{"heartbeat|theirs|w1", `Heartbeat(): Job theirs given out to another worker: w2`, qless.ErrLockLost},
	{"holder", `Holder(): Arg "key" missing`, nil},
	{"limit.delete|a b", `Limit(): This is no name of a limit: a b`, nil},
	{"limit.hold|", `Limit(): This is no name of a limit: `, nil},
	{"limit.hold|a|-1", `Limit(): Arg "seconds" is negative: -1`, nil},
	{"limit.list", `Limits(): Arg "cursor" missing`, nil},
	{"limit.list|x", `Limits(): Arg "cursor" is no cursor: x`, nil},
	{"failed||0|0|from", `Failed(): Arg "cursor" missing`, nil},
	{"failed||0|0|from|-1", `Failed(): Arg "cursor" is no cursor: -1`, nil},
	{"config.get||from", `Config.get(): Arg "cursor" missing`, nil},
	{"config.get||from|x", `Config.get(): Arg "cursor" is no cursor: x`, nil},
	{"limit.set|a|1|1|0", `Limit(): Arg "rate" and "per" go together: 1 and 0`, nil},
	{"limit.set|a|0|0|0", `Limit(): Arg "concurrency" or "rate" must be more than 0`, nil},
	{"jobs|nonsense|q", `Jobs(): Unknown type "nonsense"`, nil},
	{"length", `Queue(): no queue name provided`, nil},
	{"log|unknown|m", `Log(): Job unknown does not exist`, qless.ErrNotFound},
	{"pause", `Pause(): Arg "queue" missing`, nil},
	{"peek|q|1|beside|x", `Peek(): Arg "cursor" is no cursor: x`, nil},
	{"peek|q|1|beside|lx", `Peek(): Arg "cursor" is no cursor: x`, nil},
	{"peek|q|1|beside|d-1", `Peek(): Arg "cursor" is negative: -1`, nil},
	{"priority|unknown|1", `Priority(): Job unknown does not exist`, qless.ErrNotFound},
	{"put|w1|q|j|K|{}|0|if|never", `Put(): Unknown condition "never"`, nil},
	{"put|w1|q|j|K|{}|0|o|{}", `Put(): Arg "o" is not options: {}`, nil},
	{"put|w1|q|j|K|{}|0|priority", `Put(): Odd number of additional args`, nil},
	{"put|w1|q|j|K|{}|0|at|noon", `Put(): Arg "at" not a number: noon`, nil},
	{`put|w1|q|j|K|{}|0|depends|["x-dependencies"]`, `Put(): Arg "depends" names no job: x-dependencies`, nil},
	{"put.many|w1||q|j|K|{}|0|0|q2|j|K|{}|0|0", `Put(): Job j is named twice`, nil},
	{"put.many|w1|" + thousandAndOne("|q|%d|K|{}|0|0"), `Put(): More than 1000 jobs`, nil},
	{"queue.forget", `Queue.forget(): Arg "queue" missing`, nil},
	{"queue.forget||nowhere|later", `Queue.forget(): Queue later has 1 job`, nil},
	{"release|running|q||0|{}", `Release(): Job running has been handed out to another worker: w1`, qless.ErrLockLost},
	{"release|running|other|w1|0|{}", `Release(): Job running running in another queue: q`, qless.ErrWrongQueue},
	{"release|running|q|w1|0|{}|1", `Release(): Job running has been handed out to another worker: w1, at `, qless.ErrLockLost},
	{"release|unknown|q|w1|0|{}", `Release(): Job unknown does not exist`, qless.ErrNotFound},
	{"release|waiting|q|w1|0|{}", `Release(): Job waiting is not currently running: waiting`, qless.ErrNotRunning},
	{"release|theirs|q|w1|0|{}", `Release(): Job theirs has been handed out to another worker: w2`, qless.ErrLockLost},
	{"release|nowhere|q|w1|0|{}", `Release(): Job nowhere is in no queue`, nil},
	{"requeue|w1|q|unknown|K|{}|0", `Requeue(): Job unknown does not exist`, qless.ErrNotFound},
	{"recur|q|j|K|{}|cron|1|0", `Recur(): schedule type "cron" unknown`, nil},
	{"recur|q|j|K|{}|interval|0|0", `Recur(): Arg "interval" must be greater than 0`, nil},
	{"recur|q|j|K|{}|interval|1|0|priority", `Recur(): Odd number of additional args`, nil},
	{"recur.get", `Recurring(): no jid provided`, nil},
	{"recur.tag", `Recurring(): no jid provided`, nil},
	{"recur.tag|unknown|a", `Tag(): Job unknown does not exist`, qless.ErrNotFound},
	{"recur.untag", `Recurring(): no jid provided`, nil},
	{"recur.untag|unknown|a", `Untag(): Job unknown does not exist`, qless.ErrNotFound},
	{"recur.update|unknown|priority|1", `Recur(): No recurring job unknown`, qless.ErrNotFound},
	{"recur.update|r|priority", `Recur(): Odd number of additional args`, nil},
	{"recur.update|r|color|red", `Recur(): Unrecognized option "color"`, nil},
	{"recur.update|r|interval|-1", `Recur(): Arg "interval" must be greater than 0`, nil},
	{"unrecur", `Recurring(): no jid provided`, nil},
	{"retry|running|other|w1|0|||here|", `Retry(): Job running running in another queue: q`, qless.ErrWrongQueue},
	{"retry|running|q|w1|0|||here|1", `Retry(): Job running has been given to another worker: w1, at `, qless.ErrLockLost},
	{"retry|unknown|q|w1", `Retry(): Job unknown does not exist`, qless.ErrNotFound},
	{"retry|waiting|q|w1", `Retry(): Job waiting is not currently running: waiting`, qless.ErrNotRunning},
	{"retry|theirs|q|w1", `Retry(): Job theirs has been given to another worker: w2`, qless.ErrLockLost},
	{"tag", `Tag(): Arg "command" must be "add", "remove", "get" or "top"`, nil},
	{"tag|nonsense", `Tag(): First argument must be "add", "remove", "get" or "top"`, nil},
	{"tag|add", `Tag(): Arg "jid" missing`, nil},
	{"tag|remove|unknown|a", `Tag(): Job unknown does not exist`, qless.ErrNotFound},
	{"timeout|running|unknown", `Timeout(): Job unknown does not exist`, qless.ErrNotFound},
	{"timeout|running|nowhere", `Timeout(): Job nowhere is in no queue`, nil},
	{"timeout|running|waiting", `Timeout(): Job waiting not running`, qless.ErrNotRunning},
	{"track|track", `Track(): Arg "jid" missing`, nil},
	{"track|track|unknown", `Track(): Job does not exist`, qless.ErrNotFound},
	{"track|follow|waiting", `Track(): Unknown action "follow"`, nil},
	{"relations|j", `Relations(): Unknown relation "nil"`, nil},
	{"relations|j|history|0", `Relations(): Unknown relation "history"`, nil},
	{"relations|j|dependents|x", `Relations(): Arg "cursor" is no cursor: x`, nil},
	{"list|nonsense|q|0|1|0", `List(): Unknown list "nonsense"`, nil},
	{"list|waiting||0|1|0", `Queue(): no queue name provided`, nil},
	{"list|failed||0|1|0", `List(): Arg "group" missing`, nil},
	{"list|tagged||0|1|0", `List(): Arg "tag" missing`, nil},
	{"list|waiting|q|0|501|0", `List(): Arg "count" is more than 500: 501`, nil},
	{"list|waiting|q|0|5001|jid", `List(): Arg "count" is more than 5000: 5001`, nil},
	{"find|waiting|q||1|0|0|K", `Find(): Odd number of filter args`, nil},
	{"find|jids|x||1|0|0", `Find(): Arg "jids" missing or not JSON: x`, nil},
	{"find|worker|||1|0|0", `Find(): Arg "worker" missing`, nil},
	{"cancel.all", `Cancel(): Arg "jid" missing`, nil},
	{"cancel.all" + thousandAndOne("|j"), `Cancel(): More than 500 jobs`, nil},
	{"cancel.all|running|parent", `Cancel(): parent is a dependency of child but is not mentioned to be canceled`, qless.ErrHasDependents},
	{"repair|cancel||waiting|q", `Repair(): Arg "jids" missing`, nil},
	{"repair|cancel||jids||[" + strings.Repeat("1,", 500) + "1]|0|0", `Repair(): More than 500 jobs`, nil},
	{"repair|cancel||waiting|q|[]|0|4|K", `Repair(): Odd number of filter args`, nil},
	{"repair|cancel||waiting||[]|0|0", `Queue(): no queue name provided`, nil},
	{"repair|cancel||failed||[]|0|0", `Repair(): Arg "group" missing`, nil},
	{"repair|cancel||recurring|q|[]|0|0", `Repair(): Recurring jobs are not repaired`, nil},
	{"repair|cancel||nonsense|q|[]|0|0", `Repair(): Unknown list "nonsense"`, nil},
	{"repair|nonsense||waiting|q|[]|0|0", `Repair(): Unknown action "nonsense"`, nil},
	{"repair|move||waiting|q|[]|0|0", `Queue(): no queue name provided`, nil},
	{"repair|move|p|waiting|q|[]|0|0|delay", `Repair(): Odd number of additional args`, nil},
	{"repair|unfail||failed|g|[]|0|0|retries", `Repair(): Odd number of additional args`, nil},
	{"repair|unfail||failed|g|[]|0|0|ttl|x", `Repair(): Arg "ttl" not a number: x`, nil},
	{"repair|unfail||failed|g|[]|0|0|ttl|0", `Repair(): Arg "o" has no lifetime "t": t|{"t":0}`, nil},
	{"find|waiting|q||0|0|0", `Find(): Arg "count" is not from 1 to 1000: 0`, nil},
	{"find|waiting|q||1001|0|0", `Find(): Arg "count" is not from 1 to 1000: 1001`, nil},
	{"find|waiting|q|x|1|0|0", `Find(): Arg "cursor" is no cursor: x`, nil},
	{"find|failed|g|1.5 j|1|0|0", `Find(): Arg "cursor" is no cursor: 1.5 j`, nil},
	{"failures|g||0", `Failures(): Arg "count" is not from 1 to 1000: 0`, nil},
	{"latency", `Latency(): Arg "queue" missing`, nil},
	{"reschedule|mortal|3601", `Reschedule(): StartBy or TTL of job mortal is over before`, nil},
	{"reschedule|waiting|-1", `Reschedule(): Arg "seconds" is negative: -1`, nil},
	{"unfail.job", `Job(): no jid provided`, nil},
	{"unfail.job|unknown", `Unfail.job(): Job unknown does not exist`, qless.ErrNotFound},
	{"unfail.job|waiting", `Unfail.job(): Job waiting has not failed: waiting`, qless.ErrNotFailed},
	{"unfail.job|lost in failure", `Unfail.job(): Job lost in failure is in no queue`, nil},
	{"unpause", `Unpause(): Arg "queue" missing`, nil},
	{"queues.record|k0", `Queues.record(): Arg "cursor" is no cursor: 0`, nil},
	{"queues.record||x", `Queues.record(): Arg "figures" not a number: x`, nil},
	{"queue.history|0" + thousandAndOne("|q%d"), `Queue.history(): More than 100 queues`, nil},
	{"rates.add|run|1|0|q|K", `Rates.add(): Each klass needs 3 args`, nil},
	{"rates.add|run|1|0|q|K|1,2", `Rates.add(): Arg "counts" is not of the known form: 1,2`, nil},
	{"rates.add|run|1|0" + thousandAndOne("|q|%d|c"), `Rates.add(): More than 1000 klasses`, nil},
	{"rates|0|61", `Rates(): More than 60 minutes`, nil},
	{"worker.deregister", `Worker.deregister(): Arg "worker" missing`, nil},
	{"subscription|q|publish|a.b", `Subscription(): Unknown action "publish"`, nil},
	{"tags|0|0", `Tags(): Arg "count" is 0`, nil},
	{"workers||x", `Workers(): Arg "first" not a number: x`, nil},
	{"workers||0|1.5", `Workers(): Arg "last" is not a whole number: 1.5`, nil},
	{"workers||||registered", `Workers(): Arg "cursor" missing`, nil},
	{"workers||||registered|x", `Workers(): Arg "cursor" is no cursor: x`, nil},
	{"queues||from", `Queues(): Arg "cursor" missing`, nil},
	{"queues||from|kx", `Queues(): Arg "cursor" is no cursor: x`, nil},
	{"wake|", `Wake(): Arg "cursor" missing`, nil},
	{"put|w1|q|new|K|{}|0|at|x", `Put(): Arg "at" not a number: x`, nil},
	{"put|w1|q|new|K|{}|0|batch|unknown", `Put(): Job unknown not in the depends state: false`, qless.ErrNotFound},
	{"put|w1|q|new|K|{}|0|batch|waiting", `Put(): Job waiting not in the depends state: waiting`, qless.ErrNotDepending},
	{"put|w1|q|new|K|{}|0|batch|child", `Put(): Job child is not a batch`, nil},
	{"put|w1|q|batch|K|{}|0|batch|batch", `Put(): Job batch would wait for its own batch`, nil},
	{"put.many|w1||q|new|K|{}|0|2|batch|batch|q|batch|K|{}|0|0", `Put(): Job batch is put together with its members`, nil},
	{`put|w1|q|new|K|{}|0|batch|batch|depends|["batch"]`, `Put(): Job new would wait for its own batch`, nil},
	{"batch.commit", `Job(): no jid provided`, nil},
	{"batch.commit|unknown", `Batch.commit(): Job unknown does not exist`, qless.ErrNotFound},
	{"batch.commit|waiting", `Batch.commit(): Job waiting is not a batch`, nil},
	{"batch.status", `Job(): no jid provided`, nil},
	{"batch.status|batch|x", `Batch.status(): Arg "cursor" is no cursor: x`, nil},
	{"batch.status|unknown", `Batch.status(): Job unknown does not exist`, qless.ErrNotFound},
	{"batch.status|waiting", `Batch.status(): Job waiting is not a batch`, nil},
	{"progress|w1|running||1|2", `Progress(): Each job needs 5 args`, nil},
	{"progress|w1|running||1|-2|", `Progress(): Arg "total" is negative: -2`, nil},
	{"withdraw|parent", `Cancel(): parent is a dependency of child but is not mentioned to be canceled`, qless.ErrHasDependents},
	{"end|running|done|||0", `End(): Unknown state "done"`, nil},
	{"end|nowhere|complete|||0", `End(): Job nowhere is in no queue`, nil},
	{"finish|w1|complete|running|q", `Finish(): Arg "data" missing or not JSON`, nil}, // without a jid or a queue, too
	{"finish|w1|complete|running|q|{|0", `Finish(): Arg "data" missing or not JSON`, nil},
	{"finish|w1" + thousandAndOne("|complete|%d|q||0"), `Finish(): More than 1000 jobs`, nil},
	{"finish|w1|complete|running|q|{}|1", `Finish(): Odd number of additional args`, nil},
	{"finish|w1|complete|running|q|{}|4|next|q", `Finish(): Odd number of additional args`, nil},
	{`finish|w1|complete|running|q||4|next|q|depends|["x-history"]`, `Finish(): Arg "depends" names no job: x-history`, nil},
	{"finish|w1|fail|running|q||0", `Finish(): Arg "group" missing`, nil},
	{"finish|w1|end|running|q||0", `Finish(): Unknown action "end"`, nil},
	{"renew", `Renew(): Arg "worker" missing`, nil},
	{"reserve|\x01w|1|10|0|q", `Reserve(): Arg "worker" begins with the byte 1, like a list of queues`, nil},
	{"reserve|w1|1|10|1|order|q", `Reserve(): Odd number of additional args`, nil},
	{"reserve|w1|1|10|4|order|ordered", `Reserve(): Odd number of additional args`, nil},
	{"reserve|w1|1|10|2|lock|-1|q", `Reserve(): Arg "lock" is negative: -1`, nil},
	{"reserve|w1|1|10|2|order|sorted|q", `Reserve(): Unknown order "sorted"`, nil},
	{"reserve|w1|1|10|2|order|weighted|q", `Reserve(): Arg "weights" has 0 for 1 queues`, nil},
	{"reserve|w1|1|10|4|order|weighted|weights|0|q", `Reserve(): Arg "weights" not positive: 0`, nil},
	{"reserve|w1|1|10|4|order|weighted|weights|x|q", `Reserve(): Arg "weights" not a number: x`, nil},
	{"reserve|w1|1|10|0", `Reserve(): Arg "queue": needs 1 to 1000`, nil},
}

// stage returns an env with the jobs that the refusals name, each in the state that its name says.
func stage(t *testing.T) *env {
	e := newEnv(t)
	e.stage()
	return e
}

// stage empties the server, and creates the jobs that the refusals name.
func (e *env) stage() {
	e.T.Helper()
	ctx := e.T.Context()
	require.NoError(e.T, e.Redis.FlushDB(ctx).Err())
	e.start("q", qless.JID("running"), qless.Tags{"a"})
	e.Put("q", qless.JID("theirs"))
	require.NoError(e.T, errOf(e.As("w2").Queue("q").Pop(ctx, 1)))
	e.start("q", qless.JID("nowhere"))
	require.NoError(e.T, e.Redis.HDel(ctx, "ql:j:nowhere", "queue").Err())
	require.NoError(e.T, e.start("q", qless.JID("lost in failure")).Fail(ctx, "lost", "m"))
	require.NoError(e.T, e.Redis.HDel(ctx, "ql:j:lost in failure", "queue").Err())
	e.Put("q", qless.JID("waiting"))
	e.Put("q", qless.JID("parent"))
	e.Put("q", qless.JID("child"), qless.DependsOn{"parent"})
	e.batch(qless.JID("batch"))
	e.Put("after", qless.JID("after batch"), qless.DependsOn{"batch"})
	e.Put("later", qless.JID("mortal"), qless.TTL(time.Hour))
	_, err := e.Queue("q").Recur(ctx, "K", nil, time.Hour, qless.JID("r"), qless.Offset(time.Hour))
	require.NoError(e.T, err)
}

// arguments returns a line's command, and the arguments after NOW.
func arguments(line string) (command string, args []any) {
	words := strings.Split(line, "|")
	for _, word := range words[1:] {
		args = append(args, word)
	}
	return words[0], args
}

// dropIn runs a line like clients in other languages.
func (e *env) dropIn(line string) error {
	e.T.Helper()
	return errOf(e.dropInReply(line))
}

// dropInReply does the same, and returns the reply.
func (e *env) dropInReply(line string) (any, error) {
	e.T.Helper()
	command, args := arguments(line)
	args = append([]any{command, scripts.Time(e.Clock.Now())}, args...)
	return scripts.RunDropIn(e.T.Context(), e.Redis, args...)
}

// messageFor returns the message of a refusal's error in Go, without the verb.
func messageFor(c refusal) string {
	_, message, _ := strings.Cut(c.text, "(): ")
	if about, missing := strings.CutSuffix(message, "not in the depends state: false"); missing {
		return about + "does not exist"
	}
	return withoutVerb(message)
}

// withoutVerb leaves out the verb that some of qless-core's texts omit.
func withoutVerb(message string) string { return strings.Replace(message, " is ", " ", 1) }

func TestEveryScriptErrorHasItsCodeAndChangesNothing(t *testing.T) {
	e := stage(t)
	for _, c := range refusals {
		kind := c.kind
		if kind == nil {
			kind = qless.ErrInvalid
		}
		e.Unchanged(func() {
			command, args := arguments(c.line)
			_, err := e.Run(t.Context(), command, "some jid", args...)
			require.Error(t, err, c.line)
			own := requireCode(t, kind, err)
			require.Equal(t, "some jid", own.JID, c.line)
			require.True(t, strings.HasPrefix(withoutVerb(own.Message), messageFor(c)),
				"%s: %s", c.line, own.Message)
			if err := e.dropIn(c.line); command == "put" {
				require.ErrorContains(t, err, "(): ", c.line) // it also takes puts without a worker
			} else {
				require.ErrorContains(t, err, c.text, c.line)
			}
		})
	}
}

// Patterns of calls of checks in the sources, of the texts in these checks, and of errors that are
// written out.
var (
	checkCall = regexp.MustCompile(`\b(required|named|number|integer|whole|json|names|options)\('([^']+)'(?:, '([^']+)')?`)
	written   = regexp.MustCompile(`(?m)\b(reject|raise)\('([^']+)', (?:(\w+)\()?(.*)\)$`)
	literal   = regexp.MustCompile(`'[^']*'`)
	complaint = map[string][]string{
		"required": {`" missing`},
		"named":    {`" missing`},
		"number":   {`" .*not a number`},
		"integer":  {`" .*not a number`, `" is not a whole number`},
		"whole":    {`" .*not a number`, `" is not a whole number`, `" is negative`},
		"json":     {`" missing or not JSON`},
		"names":    {`" missing or not JSON`, `" is not a JSON array`, `" is not a JSON array of strings`},
	}
)

// problems has the beginnings of the texts of the functions that return problems.
var problems = map[string]string{
	"no_job":        "Job .* does not exist",
	"no_queue":      "Job .* is in no queue",
	"no_batch":      "Job .* is not a batch",
	"named_twice":   "Job .* is named twice",
	"not_depending": "Job .* not in the depends state",
}

// sources returns the Lua sources by their names.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range []string{"lua/commands/*.lua", "lua/lib/*.lua"} {
		for _, file := range must(fs.Glob(os.DirFS(scripts.Root), folder))(t) {
			all[file] = readFile(t, file)
		}
	}
	return all
}

// raisable returns patterns of all errors that the sources can raise, by place. For a check with
// several texts, one is enough: the same code raises them all.
func raisable(t *testing.T) map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	add := func(where, pattern string) { all[where] = regexp.MustCompile(pattern) }
	for file, source := range sources(t) {
		for _, m := range checkCall.FindAllStringSubmatch(source, -1) {
			where, area := file+": "+m[0], regexp.QuoteMeta(m[2]+"(): ")
			switch {
			case m[1] == "options":
				add(where, area+"Odd number of additional args")
			case m[3] != "": // otherwise the name is a variable
				add(where, area+`(Arg "`+m[3]+"("+strings.Join(complaint[m[1]], "|")+")|no .* provided)")
			}
		}
		for _, m := range written.FindAllStringSubmatch(source, -1) {
			pattern, texts := problems[m[3]], literal.FindAllString(m[4], -1)
			if m[3] == "new_problem" {
				texts = texts[1:] // the code
				if !strings.Contains(m[4], " nil, ") {
					pattern = "Job .*"
				}
			}
			for _, text := range texts {
				pattern += regexp.QuoteMeta(strings.Trim(text, "'")) + ".*"
			}
			if pattern != "" { // else it is a variable
				add(file+": "+m[0], regexp.QuoteMeta(m[2]+"(): ")+pattern)
			}
		}
	}
	return all
}

// complaintsAbout returns the texts of the errors about the arguments of a call.
func complaintsAbout(call string) (all []string) {
	escapes := strings.NewReplacer(`\`, "", "(?:missing or |is )?", "", "(?:Repair|Put)", "Repair", "(?:Schedule|Put)", "Schedule")
	_, parameters := parametersOf(call)
	for _, p := range parameters {
		bad := badBySign[p.sign]
		if p.sign != 0 && !p.optional {
			bad = append(slices.Clone(bad), "nil")
		}
		for _, bad := range bad {
			all = append(all, escapes.Replace(p.complaint(bad)))
		}
	}
	return all
}

func TestNoScriptErrorIsLeftOut(t *testing.T) {
	var texts []string
	for _, c := range refusals {
		texts = append(texts, c.text)
	}
	for _, call := range calls {
		texts = append(texts, complaintsAbout(call)...)
	}
	all := raisable(t)
	require.Greater(t, len(all), 100, "the sources' checks are found")
	for where, pattern := range all {
		if strings.Contains(where, "'Finish', 'jid'") || strings.Contains(where, "'Finish', 'queue'") {
			continue // the data, which comes after them, is checked first
		}
		if strings.Contains(where, "MAX_DEPENDENTS") {
			continue // TestACancelOfJobsWithVeryManyDependencies has this
		}
		require.True(t, slices.ContainsFunc(texts, pattern.MatchString), "no refusal for %s: %s", where, pattern)
	}
}

// Patterns of the codes of problems in the sources, and of texts that reach a client without one.
var (
	problemCode = regexp.MustCompile(`\bnew_problem\('(\w*)'`)
	uncoded     = regexp.MustCompile(`(?m)^.*(?:\berror\(|'!' \.\. ).*$`)
)

// coded are the lines that match uncoded, but have the code of a problem or no problem.
var coded = []string{
	`error(area .. '(): ' .. text_of(problem))`,
	`error({err = 'NOPERM this user may not publish to ' .. prefix .. 'log'})`,
	`outcomes[job.at] = '!' .. text_of(reply)`,
	`outcomes[i - 3] = '!' .. text_of(problem)`,
	`outcomes[i] = problem and '!' .. text_of(problem) or ''`,
	`outcomes[i] = '!' .. text_of(item.problem)`,
	`return '!' .. state`, // an ended job's, in end
}

func TestEachProblemHasACodeOfThePackage(t *testing.T) {
	seen := map[string]bool{}
	for file, source := range sources(t) {
		for _, m := range problemCode.FindAllStringSubmatch(source, -1) {
			seen[m[1]] = true
			require.NotEqual(t, "qless: "+m[1], qless.Code(m[1]).Error(), "%s: %s", file, m[0])
		}
		for _, line := range uncoded.FindAllString(source, -1) {
			require.Contains(t, coded, strings.TrimSpace(line), file)
		}
	}
	require.Greater(t, len(seen), 7, "the sources' problems are found")
}
