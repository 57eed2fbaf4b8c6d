package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A drawer draws lines: commands in the form for scripts, for jobs as on the server.
type drawer struct {
	*rand.Rand
	x     *mix
	put   int                 // the number of new jobs so far
	setup int                 // the number of limits set at the beginning
	waits map[string][]string // parents of jobs from this line on
}

func newDrawer(seed uint64, x *mix) *drawer {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), x: x}
	if d.chance(60) {
		d.setup = 4
	}
	return d
}

// A lineKind is a kind of line.
type lineKind struct {
	weight int
	draw   func(d *drawer) []string
}

var lineKinds = []lineKind{
	{16, (*drawer).drawPut}, {6, (*drawer).drawPutMany}, {2, (*drawer).drawBatch},
	{2, (*drawer).drawCommit}, {14, (*drawer).drawPop}, {8, (*drawer).drawReserve},
	{1, (*drawer).drawPopByJID}, {8, (*drawer).drawComplete}, {9, (*drawer).drawFinish},
	{4, (*drawer).drawFail}, {5, (*drawer).drawRetry}, {4, (*drawer).drawRelease},
	{3, (*drawer).drawHeartbeat}, {2, (*drawer).drawTimeout}, {1, (*drawer).drawProgress},
	{6, (*drawer).drawEnd}, {5, (*drawer).drawCancel}, {3, (*drawer).drawDepends},
	{3, (*drawer).drawPriority}, {5, (*drawer).drawUnfail}, {3, (*drawer).drawSweep},
	{2, (*drawer).drawPause}, {4, (*drawer).drawUnpause}, {3, (*drawer).drawLimit},
	{2, (*drawer).drawChange}, {3, (*drawer).drawReschedule}, {1, (*drawer).drawMoveMany},
	{1, (*drawer).drawRecur}, {2, (*drawer).drawSetting}, {3, (*drawer).drawAwait},
	{3, (*drawer).drawHolder}, {2, (*drawer).drawTag}, {3, (*drawer).drawRead},
	{2, (*drawer).drawWorker},
}

// step draws the next step.
func (d *drawer) step() step {
	if d.setup > 0 {
		d.setup--
		return step{Do: "flat", Raw: d.setLimit()}
	}
	sum := 0
	for _, kind := range lineKinds {
		sum += kind.weight
	}
	s := step{Do: "flat"}
	if d.chance(25) {
		s.Do = "drop-in"
	}
	n := d.IntN(sum)
	d.waits = map[string][]string{}
	for _, kind := range lineKinds {
		if n -= kind.weight; n < 0 {
			s.Raw = kind.draw(d)
			break
		}
	}
	s.Tick = one(d, time.Duration(0), 0, time.Microsecond, time.Millisecond, 100*time.Millisecond)
	if d.chance(12) {
		s.Tick = one(d, 500*time.Millisecond, time.Second, 5*time.Second, 10*time.Second,
			time.Minute, 61*time.Second, 71*time.Second)
	}
	return s
}

func one[T any](d *drawer, list ...T) T { return list[d.IntN(len(list))] }

func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

func (d *drawer) queue() string  { return one(d, queueNames...) }
func (d *drawer) worker() string { return one(d, workerNames...) }

// in returns the jids of the jobs in some states, in order, or of all jobs if there are no states.
func (d *drawer) in(states ...string) []string {
	var jids []string
	for jid, h := range d.x.k.jobs {
		if len(states) == 0 || slices.Contains(states, h.job.state) {
			jids = append(jids, jid)
		}
	}
	slices.Sort(jids)
	return jids
}

// job draws a job, mostly in one of some states.
func (d *drawer) job(states ...string) string {
	if jids := d.in(states...); len(jids) > 0 && d.chance(90) {
		return one(d, jids...)
	}
	if jids := d.in(); len(jids) > 0 && d.chance(80) {
		return one(d, jids...)
	}
	return "j" + strconv.Itoa(d.IntN(6))
}

func (d *drawer) some(n int, states ...string) []string {
	var jids []string
	for range n {
		if jid := d.job(states...); !slices.Contains(jids, jid) {
			jids = append(jids, jid)
		}
	}
	return jids
}

// newJID returns a jid never used by a job.
func (d *drawer) newJID() string {
	d.put++
	return "n" + strconv.Itoa(d.put)
}

// others draws jobs that a job can wait for without waiting for itself. Nothing frees jobs that
// wait for each other, which a line with several jobs could put. Lines as from Go draw any jobs,
// because the server refuses circles there.
func (d *drawer) others(jid string) []string {
	on := slices.DeleteFunc(d.some(1+d.IntN(2)), func(other string) bool { return d.needs(other, jid, 0) })
	d.waits[jid] = append(d.waits[jid], on...)
	return on
}

// needs reports whether a job is another one, or waits for it, now or after this line.
func (d *drawer) needs(jid, other string, depth int) bool {
	if jid == other || depth > len(d.x.k.jobs) {
		return true
	}
	isNext := func(next string) bool { return d.needs(next, other, depth+1) }
	return slices.ContainsFunc(in(d.x.k.dependencies, jid).members, isNext) ||
		slices.ContainsFunc(d.waits[jid], isNext)
}

func (d *drawer) told(jid string) told { return in(d.x.k.jobs, jid).job }

// held draws a running job with its worker and its queue, which are mostly right.
func (d *drawer) held() (jid, worker, queue string) {
	jid = d.job("running")
	t := d.told(jid)
	worker, queue = t.worker, t.queue
	if worker == "" || d.chance(4) {
		worker = d.worker()
	}
	if queue == "" {
		queue = d.queue()
	}
	return jid, worker, queue
}

func (d *drawer) delay() string { return one(d, "0", "0", "0", "0", "0.5", "5", "60") }

func (d *drawer) data() string { return fmt.Sprintf(`{"n":%d}`, d.IntN(100)) }

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (d *drawer) limits() []string {
	names := slices.Clone(limitNames)
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:1+d.IntN(2)]
}

// options draws a text of options. With unique, a key may be among them.
func (d *drawer) options(unique bool) (letters string, values map[string]any) {
	values = map[string]any{}
	add := func(percent int, letter string, value any) {
		if d.chance(percent) {
			values[letter] = value
		}
	}
	add(35, "c", d.limits())
	add(30, "g", map[string]any{"t": one(d, "x", "y", "z"), "w": one(d, 1, 2, 0.5)})
	add(15, "h", map[string]string{"a": one(d, "1", "2")})
	add(8, "l", one(d, 0.5, 5, 300))
	add(12, "q", one(d, "last", "place"))
	add(8, "s", one(d, 1.5, 30, 200))
	add(10, "t", one(d, 1.5, 30, 200))
	add(8, "k", one(d, 0, 60, 600))
	add(8, "K", one(d, -1, 0, 60))
	add(4, "e", one(d, 1, 60))
	if unique {
		values["u"] = d.claim()
	}
	return strings.Join(slices.Sorted(maps.Keys(values)), ""), values
}

// claim draws a unique key. "x" is claimed in only one way.
func (d *drawer) claim() map[string]any {
	switch {
	case d.chance(60):
		return map[string]any{"k": `["x"]`}
	case d.chance(50):
		return map[string]any{"k": `["y"]`, "m": "start"}
	case d.chance(50):
		return map[string]any{"k": `["y"]`}
	}
	return map[string]any{"k": `["z"]`, "m": "for", "d": 3600}
}

// pairs draws the arguments of a put, except for dependencies.
func (d *drawer) pairs(replace bool) []string {
	var pairs []string
	if d.chance(30) {
		pairs = append(pairs, "priority", one(d, "0", "1", "-5", "10"))
	}
	if d.chance(20) {
		pairs = append(pairs, "retries", one(d, "0", "1", "2"))
	}
	if d.chance(15) {
		pairs = append(pairs, "tags", one(d, `["red"]`, `["red","blue"]`, `[]`))
	}
	letters, values := d.options(replace || d.chance(25))
	if replace && values["u"].(map[string]any)["m"] == "for" {
		values["u"] = map[string]any{"k": `["x"]`}
	}
	if d.chance(10) && !replace {
		letters += "f"
		values["f"] = map[string]any{"do": one(d, "wait", "run", "fail")}
	}
	if letters != "" {
		pairs = append(pairs, "o", letters+"|"+jsonOf(values))
	}
	if d.chance(1) {
		pairs = append(pairs, "o", one(d, `g|{"g":{"t":"x","w":Infinity}}`, `h|{"h":{"a":NaN}}`, `c|{"c":[]}`))
	}
	if replace {
		pairs = append(pairs, "replace", one(d, "delay", "due"))
		if d.chance(25) {
			pairs = append(pairs, "within", "20")
		}
	}
	return pairs
}

// depends draws dependencies for a job, and the policy for their failures.
func (d *drawer) depends(jid string, pairs []string) []string {
	at := slices.Index(pairs, "o")
	if at >= 0 && strings.Contains(strings.SplitN(pairs[at+1], "|", 2)[0], "f") {
		return append(pairs, "depends", jsonOf(d.others(jid)))
	}
	on := d.others(jid)
	if d.chance(60) {
		policy := jsonOf(map[string]any{"do": one(d, "run", "fail"), "of": on})
		if at < 0 {
			pairs = append(pairs, "o", `f|{"f":`+policy+`}`)
		} else {
			letters, body, _ := strings.Cut(pairs[at+1], "|")
			pairs[at+1] = letters + `f|{"f":` + policy + "," + strings.TrimPrefix(body, "{")
		}
	}
	return append(pairs, "depends", jsonOf(on))
}

// putting draws the jid, klass, data, delay and pairs of a put.
func (d *drawer) putting() (first []string, pairs []string) {
	jid, delay := d.newJID(), d.delay()
	switch {
	case d.chance(25):
		pairs = d.pairs(true)
	case d.chance(30):
		jid = d.job()
		pairs = d.pairs(false)
		if d.chance(40) {
			pairs = append(pairs, "if", one(d, "absent", "finished", "idle"))
		}
		if d.chance(20) {
			pairs = d.depends(jid, pairs)
		}
	case d.chance(35):
		pairs = d.depends(jid, d.pairs(false))
	default:
		pairs = d.pairs(false)
	}
	if d.chance(10) && !slices.Contains(pairs, "replace") {
		if batch := d.batch(); !d.needs(jid, batch, 0) && !slices.Contains(pairs, "depends") {
			pairs = append(pairs, "batch", batch)
			d.waits[batch] = append(d.waits[batch], jid)
		}
	}
	return []string{jid, "K", d.data(), delay}, pairs
}

// batch draws a jid, mostly of a batch.
func (d *drawer) batch() string {
	var all []string
	for _, jid := range d.in("depends") {
		if strings.Contains(strings.SplitN(d.told(jid).options, "|", 2)[0], "b") {
			all = append(all, jid)
		}
	}
	if len(all) == 0 || d.chance(5) {
		return d.job()
	}
	return one(d, all...)
}

func (d *drawer) drawPut() []string {
	if d.chance(10) {
		return []string{"put", d.worker(), d.queue(), d.job(), "K", "{}", d.delay(), "checked", "1",
			"depends", jsonOf(d.some(1 + d.IntN(2)))}
	}
	first, pairs := d.putting()
	return slices.Concat([]string{one(d, "put", "put", "put", "requeue"), d.worker(), d.queue()}, first, pairs)
}

func (d *drawer) drawPutMany() []string {
	line := []string{"put.many", d.worker(), ""}
	for range 2 + d.IntN(3) {
		first, pairs := d.putting()
		line = append(append(line, d.queue()), first...)
		line = append(append(line, strconv.Itoa(len(pairs))), pairs...)
	}
	return line
}

func (d *drawer) drawBatch() []string {
	letters, values := d.options(d.chance(40))
	delete(values, "s")
	letters = strings.ReplaceAll(letters, "s", "") + "b"
	values["b"] = map[string]int{"n": 0}
	if d.chance(70) {
		letters += "f"
		values["f"] = map[string]string{"do": one(d, "run", "fail")}
	}
	return []string{"put", d.worker(), d.queue(), d.newJID(), "K", "{}", d.delay(), "depends", `["x:open"]`,
		"o", letters + "|" + jsonOf(values)}
}

func (d *drawer) drawCommit() []string {
	if d.chance(30) {
		return []string{"batch.status", d.batch()}
	}
	return []string{"batch.commit", d.batch()}
}

func (d *drawer) drawPop() []string {
	return []string{"pop", d.queue(), d.worker(), strconv.Itoa(1 + d.IntN(4))}
}

func (d *drawer) drawReserve() []string {
	options := []string{
		"order", one(d, "ordered", "round-robin", "shuffled"), "ahead", one(d, "0", "0", "2"),
	}
	queues := queueNames[:1+d.IntN(len(queueNames))]
	if d.chance(20) {
		options[1] = "weighted"
		weights := strings.Fields("5 1 0.5")[:len(queues)]
		options = append(options, "weights", strings.Join(weights, " "), "cursor", one(d, "1", "99999"))
	}
	if d.chance(10) {
		options = append(options, "lock", one(d, "0", "0.5", "5"))
	}
	line := append([]string{
		"reserve", d.worker(), strconv.Itoa(d.IntN(5)), "10", strconv.Itoa(len(options)),
	}, options...)
	return append(line, queues...)
}

func (d *drawer) drawPopByJID() []string {
	jid := d.job("waiting")
	return []string{"popByJid", orElse(d.told(jid).queue, "q1"), jid, d.worker()}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// next draws the next queue of a job.
func (d *drawer) next(jid string) []string {
	pairs := []string{"next", d.queue()}
	if d.chance(30) {
		pairs = append(pairs, "delay", d.delay())
	}
	if d.chance(40) {
		pairs = append(pairs, "o", `h|{"h":{"b":"3"}}`)
	}
	if d.chance(40) {
		pairs = d.depends(jid, pairs)
	}
	if d.chance(20) {
		pairs = append(pairs, "priority", one(d, "0", "3"))
	}
	return pairs
}

func (d *drawer) drawComplete() []string {
	jid, worker, queue := d.held()
	line := []string{"complete", jid, worker, queue, d.data()}
	if d.chance(30) {
		line = append(line, d.next(jid)...)
	}
	if d.chance(20) {
		line = append(line, "result", "7")
	}
	return line
}

func (d *drawer) drawFinish() []string {
	_, worker, _ := d.held()
	line := []string{"finish", worker}
	var mine []string
	for _, jid := range d.in("running") {
		if d.told(jid).worker == worker || d.chance(3) {
			mine = append(mine, jid)
		}
	}
	d.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
	for i, jid := range mine[:min(len(mine), 1+d.IntN(4))] {
		var rest []string
		action := one(d, "complete", "complete", "complete", "fail", "retry", "release")
		switch action {
		case "complete":
			if d.chance(50) {
				rest = d.next(jid)
				switch at := slices.Index(rest, "depends"); {
				case at >= 0 && d.chance(60) && i+1 < len(mine):
					rest[at+1] = jsonOf(mine[i+1 : i+2]) // another job of this exchange
					d.waits[jid] = append(d.waits[jid], mine[i+1])
				case at >= 0 && d.chance(40):
					rest[at+1] = jsonOf(d.some(1 + d.IntN(2)))
				}
			}
		case "fail":
			rest = []string{"group", one(d, groupNames...), "message", "because"}
		case "retry":
			rest = []string{"delay", d.delay()}
		case "release":
			rest = []string{"delay", d.delay()}
			if d.chance(30) {
				rest = append(rest, "place", strconv.Itoa(d.IntN(3)), "throttled", "[]")
			}
		}
		line = append(line, action, jid, orElse(d.told(jid).queue, "q1"), "", strconv.Itoa(len(rest)))
		line = append(line, rest...)
	}
	return line
}

func (d *drawer) drawFail() []string {
	jid, worker, _ := d.held()
	return []string{"fail", jid, worker, one(d, groupNames...), "because", d.data()}
}

func (d *drawer) drawRetry() []string {
	jid, worker, queue := d.held()
	line := []string{"retry", jid, queue, worker, d.delay()}
	if d.chance(30) {
		line = append(line, one(d, groupNames...), "again")
	}
	return line
}

func (d *drawer) drawRelease() []string {
	jid, worker, queue := d.held()
	return []string{"release", jid, queue, worker, d.delay(), d.data()}
}

func (d *drawer) drawHeartbeat() []string {
	jid, worker, _ := d.held()
	if d.chance(30) {
		return []string{"renew", worker, jid}
	}
	return []string{"heartbeat", jid, worker}
}

func (d *drawer) drawTimeout() []string {
	return append([]string{"timeout"}, d.some(1+d.IntN(2), "running")...)
}

func (d *drawer) drawProgress() []string {
	jid, worker, _ := d.held()
	return []string{"progress", worker, jid, "", "1", "3", "note"}
}

func (d *drawer) drawEnd() []string {
	switch {
	case d.chance(15):
		return []string{"withdraw", d.job()}
	case d.chance(15):
		return []string{"forget", d.job("complete", "failed")}
	}
	line := []string{"end", d.job("running", "waiting", "scheduled", "stalled", "depends"), "complete", "", "",
		one(d, "0", "0", "2", "3")}
	if d.chance(50) {
		line[2], line[3], line[4] = "failed", one(d, groupNames...), "over"
	}
	return line
}

func (d *drawer) drawCancel() []string {
	jids := d.some(1 + d.IntN(2))
	if d.chance(60) {
		for i := 0; i < len(jids); i++ {
			for _, other := range in(d.x.k.dependents, jids[i]).names {
				if !slices.Contains(jids, other) {
					jids = append(jids, other)
				}
			}
		}
	}
	if d.chance(20) {
		if d.chance(50) {
			return append([]string{"cancel.all"}, jids...)
		}
		return repairOf("cancel", "", jids)
	}
	if d.chance(8) {
		group := one(d, groupNames...)
		return repairIn("cancel", "failed", group, d.oldest(group, 3), "0")
	}
	if d.chance(8) {
		list := one(d, "waiting", "scheduled", "depends")
		return repairIn("cancel", list, d.queue(), d.some(3, list), "5", "", "", "", "", "")
	}
	return append([]string{"cancel"}, jids...)
}

func (d *drawer) drawDepends() []string {
	jid := d.job("depends")
	switch {
	case d.chance(50):
		return append([]string{"depends", jid, "on"}, d.others(jid)...)
	case d.chance(40):
		return append([]string{"depends", jid, "upon"}, d.some(1+d.IntN(2))...)
	case d.chance(30):
		return []string{"depends", jid, "off", "all"}
	}
	others := without(slices.Clone(in(d.x.k.dependencies, jid).names), openBatch)
	if len(others) == 0 {
		others = d.some(1)
	}
	return []string{"depends", jid, "off", one(d, others...)}
}

func (d *drawer) drawPriority() []string {
	jid := d.job("waiting", "scheduled")
	if d.chance(30) {
		return repairOf("priority", one(d, "0", "7"), []string{jid})
	}
	return []string{"priority", jid, one(d, "0", "7", "-3")}
}

func (d *drawer) drawUnfail() []string {
	group := one(d, append(inOrder(d.x.k.groups), "oops")...)
	switch d.IntN(4) {
	case 0:
		return []string{"unfail", d.queue(), group, strconv.Itoa(1 + d.IntN(3))}
	case 1:
		return repairIn("unfail", "failed", group, d.oldest(group, 1+d.IntN(3)), "0")
	case 2:
		return repairOf("unfail", "", d.some(2, "failed"))
	}
	line := []string{"unfail.job", d.job("failed")}
	if d.chance(30) {
		line = append(line, "ttl", "30")
	}
	return line
}

func (d *drawer) drawSweep() []string {
	if d.chance(50) {
		return []string{"sweep", "*"}
	}
	return []string{"sweep"}
}

func (d *drawer) drawPause() []string   { return []string{"pause", d.queue()} }
func (d *drawer) drawUnpause() []string { return []string{"unpause", d.queue()} }

func (d *drawer) drawLimit() []string {
	name := d.limit()
	switch {
	case d.chance(12):
		return []string{"limit.delete", name}
	case d.chance(25):
		return []string{"limit.hold", name, one(d, "0", "5", "20")}
	case d.chance(20):
		return []string{"limit.info", name}
	}
	return d.setLimit()
}

func (d *drawer) limit() string { return one(d, append([]string{"f"}, limitNames...)...) }

func (d *drawer) setLimit() []string {
	most, rate, per := strconv.Itoa(d.IntN(3)), "0", "0"
	if most == "0" || d.chance(40) {
		rate, per = strconv.Itoa(1+d.IntN(3)), one(d, "5", "30")
	}
	return []string{"limit.set", d.limit(), most, rate, per}
}

func (d *drawer) drawChange() []string {
	switch {
	case d.chance(50):
		return repairOf("promote", "", d.some(2, "scheduled", "waiting"))
	case d.chance(50):
		return repairOf(one(d, "tag", "untag"), `["red","green"]`, d.some(2))
	}
	return repairOf(one(d, "track", "untrack"), "", d.some(2))
}

func (d *drawer) drawReschedule() []string {
	return []string{"reschedule", d.job("waiting", "scheduled"), one(d, "0", "5", "60")}
}

// repairOf returns the command that repairs the named jobs.
func repairOf(action, value string, jids []string, pairs ...string) []string {
	return append([]string{"repair", action, value, "jids", "", textOf(jids), "0", "0"}, pairs...)
}

// oldest returns at most n jobs of a failure group, the oldest first, and a missing job.
func (d *drawer) oldest(group string, n int) []string {
	jids := slices.Clone(in(d.x.k.groups, group).members)
	slices.Reverse(jids)
	return append(jids[:min(n, len(jids))], d.newJID())
}

// repairIn returns the command that repairs the named jobs of a list under filters.
func repairIn(action, list, name string, jids []string, n string, filters ...string) []string {
	return append([]string{"repair", action, "", list, name, textOf(jids), "0", n}, filters...)
}

func textOf(jids []string) string {
	text, err := json.Marshal(jids)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// repairedJIDs returns the jobs repaired by a command, if it names them.
func repairedJIDs(line []string) (jids []string) {
	if line[0] == "repair" && line[3] == "jids" {
		_ = json.Unmarshal([]byte(line[5]), &jids)
	}
	return jids
}

func (d *drawer) drawMoveMany() []string {
	return repairOf("move", d.queue(), d.some(3), "worker", d.worker(), "delay", d.delay())
}

func (d *drawer) drawRecur() []string {
	if d.chance(40) {
		return []string{"unrecur", "r"}
	}
	return []string{"recur", d.queue(), "r", "K", "{}", "interval", one(d, "5", "60"), "0", "backlog", "2"}
}

func (d *drawer) drawSetting() []string {
	option := one(d, "heartbeat", "grace-period", d.queue()+"-max-concurrency", d.queue()+"-max-rate",
		"jobs-history-count", "max-job-history", "backoff-initial-delay", "jobs-failed-history-count")
	values := map[string][]string{
		"heartbeat": {"10", "60"}, "grace-period": {"0", "10"}, "jobs-history-count": {"3", "50"},
		"max-job-history": {"10", "2"}, "backoff-initial-delay": {"0", "5"}, "jobs-failed-history-count": {"2", "20"},
	}[option]
	switch {
	case strings.HasSuffix(option, "-max-concurrency"):
		values = []string{"0", "2"}
	case strings.HasSuffix(option, "-max-rate"):
		values = []string{"0/0", "2/5"}
	}
	if d.chance(40) {
		return []string{"config.unset", option}
	}
	return []string{"config.set", option, one(d, values...)}
}

func (d *drawer) drawAwait() []string { return []string{"await", d.job()} }

func (d *drawer) drawHolder() []string { return []string{"holder", one(d, `["x"]`, `["x"]`, `["y"]`)} }

func (d *drawer) drawTag() []string {
	if d.chance(50) {
		return []string{"log", d.job(), "looked at"}
	}
	return []string{"tag", one(d, "add", "remove"), d.job(), one(d, "red", "green")}
}

func (d *drawer) drawRead() []string {
	queue := d.queue()
	return one(d, []string{"peek", queue, "3"}, []string{"get", d.job()}, append([]string{"multiget"}, d.some(3)...),
		[]string{"queues"}, []string{"queues", queue}, []string{"jobs", "scheduled", queue}, []string{"failed"},
		[]string{"workers"}, []string{"result", d.job()}, []string{"length", queue})
}

func (d *drawer) drawWorker() []string {
	worker := d.worker()
	switch d.IntN(4) {
	case 0:
		return []string{"worker.register", worker, "5", "{}"}
	case 1:
		return []string{"worker.deregister", worker}
	case 2:
		return []string{"schedule.last", "s", worker, "d"}
	}
	return append([]string{"depart", worker, "", "0"}, queueNames...)
}
