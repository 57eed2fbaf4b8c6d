package atomic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// commands are writing calls, each run on the scene.
var commands = []string{
	"put|30|w1|a|new|K|{}|0",
	"put|30|w1|a|new|K|{}|10|priority|3|tags|[\"red\", \"green\"]",
	"put|30|w1|a|new|K|{}|10|depends|[\"waiting\", \"parent\"]",
	"put|30|w1|new queue|new|K|{}|0",
	"put|30|w3|b|parent|K|{}|0|tags|[\"blue\"]",
	"put|30|w1|b|waits for two|K|{}|0|depends|[\"other parent\", \"waiting\"]",
	"put|30|w1|b|failed|K|{}|0",
	"put|30|w1|b|complete|K|{}|0|tags|[]",
	"requeue|30|w1|a|waiting|K|{}|0",
	"put.settled|30|new|waiting",
	"put.many|30|w1||a|new 1|K|{}|0|0|b|new 2|K|{}|0|2|tags|[\"red\"]|a|new 3|K|{}|10|0" +
		"|b|new 4|K|{}|0|2|depends|[\"new 1\", \"waiting\"]|b|waiting too|K|{}|0|0",
	"put.many|30|w1|once|a|new 1|K|{}|0|0|b|new 2|K|{}|0|2|depends|[\"new 1\"]|a|failed|K|{}|0|2|if|absent",
	"put|30|w1|a|new|K|{}|0|o|u¦{\"u\":{\"k\":\"new\"}}",
	"put|30|w1|a|failed|K|{}|0|o|u¦{\"u\":{\"k\":\"new\",\"m\":\"for\",\"d\":60}}",
	"put|30|w1|a|unique|K|{}|0|o|u¦{\"u\":{\"k\":\"another\"}}",
	"put.many|30|w1||a|new 1|K|{}|0|2|o|u¦{\"u\":{\"k\":\"new\"}}" +
		"|b|new 2|K|{}|0|2|o|u¦{\"u\":{\"k\":\"new\"}}|a|failed too|K|{}|0|0",
	"put|30|w1|a|new|K|{}|0|o|g¦{\"g\":{\"t\":\"tenant\"}}",
	"put.many|30|w1||a|new 1|K|{}|0|2|o|g¦{\"g\":{\"t\":\"tenant\"}}|a|failed|K|{}|0|2|o|g¦{\"g\":{\"t\":\"other\"}}",
	"cancel|30|unique",
	"put|30|w1|a|new|K|{}|0|o|skK¦{\"s\":60,\"k\":60,\"K\":60}",
	"put|200|w1|a|new|K|{}|0|o|t¦{\"t\":60}|at|1700000230",
	"put|30|w1|a|mortal|K|{}|0|o|t¦{\"t\":60}",
	"put|200|w1|a|mortal|K|{}|0|if|absent",
	"cancel|30|mortal|mortal too",
	"pop|30|c|w3|2",
	"pop|200|c|w3|1",
	"popByJid|200|c|mortal|w3",
	"reserve|200|w3|1|10|0|c|nowhere",
	"peek|200|c|3",
	"peek|200|c|3|beside|",
	"complete|30|forgotten|w1|c|{}",
	"complete|30|remembered|w1|c|{}",
	"finish|30|w1|complete|forgotten|c||0|complete|remembered|c||0",
	"complete|30|forgotten|w1|c|{}|next|b",
	"fail|30|remembered|w1|group|message",
	"unfail.job|30|failed",
	"sweep|200",
	"sweep|700",
	"put|30|w1|a|new|K|{}|0|tags|[\"red\"]|o|u¦{\"u\":{\"k\":\"k\"}}|replace|delay",
	"put|30|w1|b|new|K|{}|10|o|u¦{\"u\":{\"k\":\"k\"}}|replace|due",
	"put|30|w1|b|new|K|{}|10|o|u¦{\"u\":{\"k\":\"other\"}}|replace|delay|within|20",
	"put.many|30|w1||b|new 1|K|{}|0|4|o|u¦{\"u\":{\"k\":\"k\"}}|replace|delay" +
		"|a|new 2|K|{}|0|4|o|u¦{\"u\":{\"k\":\"other\"}}|replace|delay" +
		"|a|new 3|K|{}|5|4|o|u¦{\"u\":{\"k\":\"k\"}}|replace|due",
	"cancel|30|unique",
	"end|30|parent|complete|||0",
	"end|30|parent|failed|group|m|0|7",
	"end|30|waits for two|failed|group|m|0",
	"end|30|waits for two|complete|||0",
	"end|30|lost|complete|||3|7",
	"end|30|stale|complete|||3",
	"end|30|stale|complete|||1|7",
	"end|30|in b|failed|new group|m|1",
	"end|30|soon|complete|||2",
	"forget|30|complete",
	"forget|30|failed",
	"sweep|125|a",
	"sweep|125|c",
	"reserve|200|w3|10|10|4|owner|w4|lock|5|a|b",
	"withdraw|30|unique",
	"withdraw|30|parent",
	"withdraw|30|waits for two",
	"holder|30|k",
	"schedule|30|s|1700000020|1|w1|a|new|K|{}|0",
	"schedule.last|30|s|w1|digest",
	"schedule.register|30|s|digest|@daily|once|a|K||{}|[]",
	"schedule.leave|30|w1|s",
	"schedule.forget|30|s",
	"pop|30|a|w3|1",
	"pop|200|a|w3|10",
	"pop|300|b|w3|10",
	"reserve|30|w3|1|10|0|a",
	"reserve|200|w3|10|10|0|a|b",
	"reserve|200|w3|10|10|2|order|round-robin|b|a",
	"reserve|200|w3|0|10|4|order|round-robin|ahead|10|b|a",
	"reserve|200|w3|2|10|0|a|nowhere",
	"reserve|200|w3|10|10|2|order|round-robin|nowhere|a",
	"peek|200|a|10",
	"peek|200|a|10|beside|",
	"jobs|200|scheduled|a",
	"queues|200|a",
	"queues|200||from|",
	"overview|200|0|10|1|a|b",
	"complete|30|parent|w1|a|{\"a\":1}",
	"complete|30|in b|w1|b|{}",
	"complete|30|parent|w1|a|{}|next|b",
	"complete|30|parent|w1|a|{}|next|b|delay|10|depends|[\"waiting\", \"in b\"]",
	"complete|30|parent|w1|a|{}|next|b|priority|7|retries|2|tags|[\"blue\", \"green\"]",
	"complete|30|parent|w1|a|{}|next|b|depends|[\"waiting\"]|tags|[]",
	"complete|30|parent|w1|a|{\"a\":1}|result|7",
	"complete|30|parent|w1|a|{}|next|b|result|7",
	"fail|30|parent|w1|group|message|{\"a\":1}",
	"fail|30|parent|w1|group|message|{\"a\":1}|7",
	"retry|30|lost once too often|a|w2|10|||here||{\"a\":1}|7",
	"retry|30|parent|a|w1|0|group|message",
	"retry|30|lost once too often|a|w2|10",
	"retry|30|parent|a|w1|0|||here||{\"a\":1}",
	"retry|30|lost once too often|a|w2|10|||here||{\"a\":1}",
	"release|30|parent|a|w1|0|{\"a\":1}",
	"release|30|in b|b|w1|10|{}",
	"heartbeat|30|parent|w1|{\"a\":1}",
	"renew|30|w1|parent|in b|other parent",
	"finish|30|w1|complete|parent|a||0|complete|in b|b|{\"a\":1}|0|fail|other parent|a||4|group|g|message|m",
	"finish|30|w1|retry|parent|a||4|group|g|message|m|release|in b|b||2|delay|10" +
		"|complete|other parent|a||4|next|b|depends|[\"waiting\"]",
	"finish|30|w1|complete|parent|a||2|next|b|complete|other parent|a||4|next|b|delay|5|retry|in b|b||2|delay|5",
	"finish|30|w1|complete|parent|a||6|next|b|tags|[\"blue\"]|priority|3|complete|in b|b||4|next|a|retries|1",
	"cancel|30|parent|child|grandchild|waits for two",
	"cancel|30|failed|waiting|later",
	"timeout|30|parent|in b",
	"unfail|30|b|group|5",
	"unfail|30|unseen|group|5",
	`repair|30|unfail||failed|group|["failed"]|0|0`,
	`repair|30|unfail||failed|group|["failed","failed too"]|0|0`,
	"unfail.job|30|failed too",
	"depends|30|grandchild|on|waiting|in b",
	"depends|30|child|upon|waiting|in b",
	"depends|30|waits for two|off|parent",
	"depends|30|waits for two|off|all",
	"depends|30|waits for two|fewer",
	"depends|30|child|off|parent",
	"priority|30|waiting|7",
	"priority|30|complete|7",
	"tag|30|add|waiting|green|blue",
	"tag|30|remove|failed|red|blue",
	"track|30|track|child",
	"track|30|untrack|parent",
	"log|30|waiting|text",
	"recur|30|a|new|K|{}|interval|60|0",
	"recur|30|b|r|K|{}|interval|30|0",
	"recur.update|30|r|queue|b|interval|30|tags|[\"red\"]",
	"recur.tag|30|r|red",
	"recur.untag|30|r|blue",
	"unrecur|30|r",
	"pause|30|a|b",
	"unpause|30|a|b",
	"config.set|30|heartbeat|5",
	"config.unset|30|grace-period",
	"queue.forget|30|a|b",
	"queue.forget|30||emptied|nowhere",
	"worker.register|30|w1|5|{}",
	"worker.register|30|w4|5|{}",
	"queues.record|90",
	"queues.record|90|k0 a|2|1|1|1|1",
	"worker.deregister|30|w1|w2",
	"rates.add|30|run|2|5|a|K|1,0,0¦3:1¦4:1|a|L|0,1,0¦¦",
	"rates.add|30|another|1|0|b|K|1,0,0¦¦",
	"rates.add|30|run|2|60|b|K|1,0,0¦¦",
	"depart|30|w1||0|a|b",
	"popByJid|30|a|waiting|w3",
	"subscription|30|a|add|x.*",
	"subscription|30|a|remove|y.*",
	"put|30|w1|a|new|K|{}|0|backoff|{\"initial_delay\": 5}",
	"wake|30|a|b",
	"wake|30||",
	"await|30|parent",
	"progress|30|w1|parent||1|2|note",
	"batch.commit|30|batch",
	"batch.commit|30|batch of one",
	"limit.set|30|api|2|5|60",
	"limit.hold|30|api|60",
	"limit.delete|30|api",
	"put|30|w1|a|new|K|{}|0|batch|batch",
	"put.many|30|w1||a|new 1|K|{}|0|2|batch|batch|b|new 2|K|{}|10|2|batch|batch|a|failed|K|{}|0|2|batch|batch",
	"progress|30|w1|parent||1|2||in b||2|2||other parent||1|2|",
	`repair|30|cancel||jids||["failed","waiting","later","parent","child"]|0|0`,
	"cancel.all|30|parent|child|grandchild|waits for two",
	"cancel.all|30|failed|waiting|later|mortal|unique|batch",
	`repair|30|promote||jids||["later","waiting"]|0|0`,
	`repair|30|priority|7|jids||["waiting","failed"]|0|0`,
	`repair|30|tag|["green","red"]|jids||["waiting","failed"]|0|0`,
	`repair|30|untag|["red"]|jids||["waiting","failed"]|0|0`,
	`repair|30|track||jids||["child","waiting"]|0|0`,
	`repair|30|untrack||jids||["parent"]|0|0`,
	`repair|30|timeout||jids||["parent","in b"]|0|0`,
	`repair|30|cancel||failed|group|["failed","failed too"]|0|0`,
	`repair|30|cancel||waiting|a|["waiting"]|0|6|K|||||`,
	`repair|30|tag|["red"]|failed|group|["failed","failed too"]|0|0`,
	`repair|30|unfail||failed|group|["failed","failed too"]|0|0|retries|2|ttl|60`,
	`repair|30|unfail||jids||["failed","failed too"]|0|0`,
	"reschedule|30|waiting|60",
	"reschedule|30|later|0",
	`repair|30|move|b|jids||["waiting"]|0|0|worker|w1`,
	`repair|30|move|b|failed|group|["failed","failed too"]|0|0|worker|w1|delay|10`,
}

// A damage is done to a key that exists or would exist.
type damage struct {
	key   string
	field string // empty if the key holds a string instead of its proper type
}

func (d damage) String() string {
	if d.field == "" {
		return d.key + " is a string"
	}
	return d.key + " has no field " + d.field
}

// damages returns one damage of each kind for each key of a keyspace usable by a command.
func damages(keys []storedKey) []damage {
	var all []damage
	for _, key := range keys {
		all = append(all, damage{key: key.name})
		if _, relation := ownerOf(key.name); strings.HasPrefix(key.name, "ql:j:") && relation == "" {
			for i := 0; i < len(key.values); i += 2 {
				all = append(all, damage{key.name, key.values[i]})
			}
		}
	}
	return all
}

// A trial is a command on a damaged scene, compared with the same command on the whole scene.
type trial struct {
	line          string
	damage        damage
	before, after facts // the damaged scene, around the command
	whole         facts // after the command on the whole scene
	refused       map[string]bool
}

func TestCommandsAreDoneAsAWholeOrNotAtAll(t *testing.T) {
	for _, line := range commands {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			scene := b.keys(t)
			b.restore(t)
			undamaged := b.digests(t)
			used := b.used(t, line)
			whole, digests := b.keys(t), b.digests(t)
			require.NotEmpty(t, used)
			for _, d := range damages(union(scene, whole)) {
				if used[d.key] {
					b.try(t, line, d, whole, undamaged, digests)
				}
			}
		})
	}
}

// used runs a line, and returns the keys read or written.
func (b *bench) used(t *testing.T, line string) map[string]bool {
	t.Helper()
	words := map[string]bool{}
	for _, command := range b.server.Monitored(t, func() {
		_, err := b.run(t.Context(), line)
		require.NoError(t, err)
	}) {
		if command.Caller == "lua" {
			for _, word := range command.Words[1:] {
				words[word] = true
			}
		}
	}
	return words
}

// union returns the keys of one keyspace, and those only in another.
func union(some, more []storedKey) []storedKey {
	known := map[string]bool{}
	for _, key := range some {
		known[key.name] = true
	}
	return slices.Concat(some, slices.DeleteFunc(slices.Clone(more), func(k storedKey) bool { return known[k.name] }))
}

// try runs a command on a damaged scene, and checks its effects. Digests decide most trials: after
// a refusal, the scene equals the scene before, and otherwise the whole scene, except for the
// damage.
func (b *bench) try(t *testing.T, line string, d damage, whole []storedKey, scene, done map[string]string) {
	t.Helper()
	damaged := b.restoreWith(t, d)
	reply, err := b.run(t.Context(), line)
	after := b.digests(t)
	if err != nil && after[d.key] == damaged && sameBeside(d.key, after, scene) {
		return
	}
	if err == nil && len(refusedBy(line, reply)) == 0 && sameBeside(d.key, after, done) {
		return
	}
	b.tryAgain(t, line, d, whole)
}

// sameBeside reports whether two keyspaces are the same, except for one key.
func sameBeside(key string, a, b map[string]string) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, key)
	delete(b, key)
	return maps.Equal(a, b)
}

// tryAgain is try with a comparison of all keys.
func (b *bench) tryAgain(t *testing.T, line string, d damage, whole []storedKey) {
	t.Helper()
	b.restoreWith(t, d)
	before := b.keys(t)
	reply, err := b.run(t.Context(), line)
	after := b.keys(t)
	if err != nil {
		requireSame(t, before, after, fmt.Sprintf("%s: refused (%v), but not as it was", d, err))
		return
	}
	jids := jidsOf(before, after, whole)
	hidden := ""
	if d.field == "" {
		hidden = d.key
	}
	trial{
		line: line, damage: d, refused: refusedBy(line, reply),
		before: factsOf(before, jids, hidden), after: factsOf(after, jids, hidden),
		whole: factsOf(whole, jids, hidden),
	}.check(t)
}

// refusedBy returns the jobs of a batch refused in the reply.
func refusedBy(line string, reply any) map[string]bool {
	refused := map[string]bool{}
	answers, ok := reply.([]any)
	words := strings.Split(line, "|")
	if !ok || words[0] != "finish" && words[0] != "renew" {
		return refused
	}
	at := 3
	for _, answer := range answers {
		jid := words[at]
		if words[0] == "finish" {
			jid = words[at+1]
		}
		refused[jid] = strings.HasPrefix(answer.(string), "!")
		if words[0] == "finish" {
			at += 5 + int(words[at+4][0]-'0')
		} else {
			at++
		}
	}
	return refused
}

// check requires that each job, and everything that concerns no job, is either as before the
// command, or as the command leaves it if nothing is damaged.
func (tr trial) check(t *testing.T) {
	t.Helper()
	for _, about := range slices.Sorted(maps.Keys(joined(tr.before, tr.after, tr.whole))) {
		jid, isJob := strings.CutPrefix(about, "job ")
		switch after := tr.after[about]; {
		case tr.excused(about):
		case maps.Equal(after, tr.whole[about]) && !tr.refused[jid]:
		case maps.Equal(after, tr.before[about]) && (!isJob || !tr.mustBeDone(jid)):
		default:
			t.Errorf("%s:\n  %s is neither as before:\n    %s\n  nor as it should be:\n    %s", tr.damage, about,
				difference(tr.before[about], after), difference(tr.whole[about], after))
		}
	}
}

// excused reports whether the damage itself accounts for any difference.
func (tr trial) excused(about string) bool {
	owner, relation := ownerOf(tr.damage.key)
	isHash := owner != "" && relation == ""
	switch {
	case strings.HasPrefix(about, "key ql:x:"): // these keys are rebuilt later
		return true
	case strings.HasPrefix(about, "key ql:"): // counts follow from the actions
		return isHash || len(tr.refused) > 0 || strings.HasPrefix(tr.damage.key, "ql:t:")
	case !isHash:
		return tr.damage.key == "ql:config" || tr.replacesNone("")
	case about == "job "+owner:
		return true
	case tr.replacesNone(owner):
		return true
	case strings.HasPrefix(owner, "r-"): // a number was taken, so the children have others
		return strings.HasPrefix(about, "job r")
	case tr.damage.field == "state": // the dependents do not consider it a job
		return strings.Contains(tr.line, `"`+owner+`"`) || strings.Contains(tr.line, "|on|") ||
			strings.Contains(tr.line, "|upon|")
	}
	return tr.poppedInstead(about)
}

// replacesNone reports whether a put replaces no job because the damage hides the holder of its
// key: the claim, or the job itself.
func (tr trial) replacesNone(owner string) bool {
	hidden := strings.HasPrefix(tr.damage.key, "ql:x:unique:") || owner == "unique" || owner == "other parent"
	return hidden && strings.Contains(tr.line, "|replace|")
}

// poppedInstead reports whether a job was completely popped instead of a damaged one.
func (tr trial) poppedInstead(about string) bool {
	pops := strings.HasPrefix(tr.line, "pop|") || strings.HasPrefix(tr.line, "reserve|")
	jid, _ := strings.CutPrefix(about, "job ")
	after := tr.after[about]
	queue := after["ql:j:"+jid+" queue"]
	lock := after["ql:q:"+queue+"-locks "+jid]
	return pops && after["ql:j:"+jid+" state"] == "running" && lock != "" &&
		lock == after["ql:j:"+jid+" expires"] && lock == after["ql:w:w3:jobs "+jid] &&
		after["ql:q:"+queue+"-work "+jid] == ""
}

// mustBeDone reports whether the command named a job without refusing it, so that it must have been
// done.
func (tr trial) mustBeDone(jid string) bool {
	refused, named := tr.refused[jid]
	return named && !refused
}

func joined(all ...facts) map[string]bool {
	abouts := map[string]bool{}
	for _, some := range all {
		for about := range some {
			abouts[about] = true
		}
	}
	return abouts
}
