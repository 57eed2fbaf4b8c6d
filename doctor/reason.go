package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// A Reason is a cause that keeps jobs waiting, a problem of a namespace, or a case of damage or
// danger. [Kinds] describes the codes. The code determines which fields are set.
type Reason struct {
	Code    ReasonCode `json:"code"`
	Gravity Gravity    `json:"gravity"`

	// Sentence describes the reason in words.
	Sentence string `json:"sentence"`

	// Certain is true if the reason is known to be true. Otherwise the reason is possible, because
	// some facts are unknown, for instance about classic workers.
	Certain bool `json:"certain"`

	// Queue is the queue harmed most. Queues are set if several are harmed, starting with the most
	// harmed.
	Queue  string   `json:"queue,omitempty"`
	Queues []string `json:"queues,omitempty"`

	Limit    string `json:"limit,omitempty"`
	Outbox   string `json:"outbox,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	Klass    string `json:"klass,omitempty"`

	// Group is the failure group with most of the jobs, and Groups are all groups concerned.
	Group  string   `json:"group,omitempty"`
	Groups []string `json:"groups,omitempty"`

	// Key is a whole key, and Member the member concerned, if any: a jid, a tag, a worker or a
	// setting.
	Key    string `json:"key,omitempty"`
	Member string `json:"member,omitempty"`

	// JID is the job concerned or a job that holds up others. JIDs are some of several, at most 20.
	JID  string   `json:"jid,omitempty"`
	JIDs []string `json:"jids,omitempty"`

	// Jobs is the number of jobs kept waiting, or the number of failures or retries per minute. If
	// Sampled is true, only the first jobs were counted.
	Jobs    int  `json:"jobs,omitempty"`
	Sampled bool `json:"sampled,omitempty"`

	// Until is the time at which the reason ends by itself.
	Until time.Time `json:"until,omitzero"`

	// Max is the maximum number of jobs that may run, or may start in a time.
	Max int `json:"max,omitempty"`

	// Workers are the names of the workers concerned, at most 20.
	Workers []string `json:"workers,omitempty"`

	// Slots is the number of slots of these workers, and Busy the number of jobs held.
	Slots int `json:"slots,omitempty"`
	Busy  int `json:"busy,omitempty"`

	// Silent is the number of listed but unregistered workers. Their queues are unknown.
	Silent int `json:"silent,omitempty"`

	// Blockers are parents that keep jobs waiting, at most 20.
	Blockers []Blocker `json:"blockers,omitempty"`

	// Completed, Failed and Retried count the runs by Go workers in the last hour, of jobs with the
	// klasses of the waiting and the retried jobs.
	Completed int `json:"completed,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Retried   int `json:"retried,omitempty"`

	// Fixable is true if [Fix] can repair the finding.
	Fixable bool `json:"fixable,omitempty"`

	// Advice tells an operator, in words, what to do. It may be empty.
	Advice string `json:"do,omitempty"`

	// Command is the shell command that repairs the problem or shows more.
	Command string `json:"command,omitempty"`

	age     time.Duration // of the oldest waiting job
	rate    float64       // a share, in percent
	details string        // for the sentence

	perMinute float64 // failures or retries
}

// A Blocker is a parent that keeps jobs waiting.
type Blocker struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state"`
	Group string      `json:"group,omitempty"` // of its failure, if the job has failed
	Jobs  int         `json:"jobs"`            // jobs of the queue waiting for this job
}

// A Gravity is the severity of a reason.
type Gravity string

const (
	// Urgent reasons make jobs late or lose them unless an operator acts.
	Urgent Gravity = "urgent"

	// Attention is the gravity of other harmful reasons.
	Attention Gravity = "attention"

	// Calm reasons do no harm.
	Calm Gravity = "calm"

	// Broken is damage that must never occur: a job may be lost, run at the wrong time, or be shown
	// wrongly.
	Broken Gravity = "broken"

	// Leftover is damage of normal operation: harmless, but takes up memory.
	Leftover Gravity = "leftover"

	// Warning is the gravity of settings and servers likely to do harm, but harmless so far.
	Warning Gravity = "warning"
)

// Urgent reports whether jobs will be late or lost unless an operator acts.
func (r Reason) Urgent() bool { return r.Gravity == Urgent }

// Is reports whether another reason is about the same case.
func (r Reason) Is(other Reason) bool {
	return r.Code == other.Code && r.Key == other.Key && r.Member == other.Member
}

// String returns the code and the sentence.
func (r Reason) String() string { return string(r.Code) + ": " + r.Sentence }

// CompareReasons orders the reasons of a status: urgent ones first, then by their place among
// [Kinds], then by the number of harmed jobs.
func CompareReasons(a, b *Reason) int {
	if a.Urgent() != b.Urgent() && a.Urgent() {
		return -1
	} else if a.Urgent() != b.Urgent() {
		return 1
	}
	return cmp.Or(placeOf(a.Code)-placeOf(b.Code), b.Jobs-a.Jobs)
}

func placeOf(code ReasonCode) int {
	return slices.IndexFunc(kinds, func(k Kind) bool { return k.Code == code })
}

// kindOf returns the row of a code, which is empty for an unknown code.
func kindOf(code ReasonCode) Kind {
	if at := placeOf(code); at >= 0 {
		return kinds[at]
	}
	return Kind{Code: code}
}

// repairs is the advice on reasons repairable by Fix.
const repairs = "Repair: the record of the job decides, and no job is run, failed or deleted."

// A said is the data for the texts of the table.
type said struct {
	*Reason
	Details string
	Rate    float64
	Name    string // the member, or the jid
	Wait    string // the waiting jobs, and the age of the oldest
}

// parsed returns the texts of the table as templates, named after themselves, and the lines of a
// status also by their codes.
var parsed = sync.OnceValue(func() *template.Template {
	all := template.New("table").Funcs(template.FuncMap{
		"count": count, "verb": verb, "waits": waits, "expired": expired, "list": list,
		"clock": clock, "silence": silence,
		"repairs": func() string { return repairs },
		"oldest":  func() string { return redisx.OldestServer },
	})
	for _, k := range kinds {
		template.Must(all.New(string(k.Code)).Parse(k.Line))
		for _, text := range []string{k.Text, k.Line, k.Lines, k.Advice} {
			template.Must(all.New(text).Parse(text))
		}
	}
	return all
})

// say fills in a text of the table.
func (r *Reason) say(text string) string {
	if text == "" {
		return ""
	}
	s := said{
		r, r.details, r.rate, cmp.Or(r.Member, r.JID),
		waits(r.Jobs) + ", the oldest for " + units.Age(r.age),
	}
	var out strings.Builder
	if err := parsed().ExecuteTemplate(&out, text, s); err != nil {
		return text // a test fills in each text
	}
	return out.String()
}

// explained completes a cause or finding with a sentence, advice and a command.
func (r Reason) explained() Reason {
	k := kindOf(r.Code)
	r.Gravity = cmp.Or(r.Gravity, k.Gravity)
	r.Sentence, r.Advice = r.say(k.Text), r.say(k.Advice)
	if k.Text == "" && k.Line != "" {
		line := r.line(k)
		r.Sentence = strings.ToUpper(line[:1]) + line[1:] + "."
	}
	r.Command = cmp.Or(r.Command, r.command(k.Command))
	if r.Fixable {
		r.Advice, r.Command = repairs, "qless doctor --fix"
	}
	return r.told()
}

// inStatus completes a problem with a sentence, and the command that a status suggests.
func (r Reason) inStatus() Reason {
	k := kindOf(r.Code)
	r.Gravity, r.Certain = cmp.Or(r.Gravity, k.Gravity), true
	r.Sentence = r.line(k)
	r.Command = cmp.Or(r.Command, r.command(cmp.Or(k.Look, k.Command)))
	return r.told()
}

// line returns the sentence for a status, without a full stop.
func (r *Reason) line(k Kind) string {
	switch {
	case len(r.Queues) > 1:
		return fmt.Sprintf("%d queues (%s) ", len(r.Queues), list(r.Queues)) + r.say(k.Lines)
	case k.Lines != "":
		return "queue " + r.Queue + " " + r.say(k.Line)
	}
	return r.say(k.Line)
}

// told returns the reason without the fields needed only for the sentence.
func (r Reason) told() Reason {
	r.age, r.rate, r.details, r.perMinute = 0, 0, "", 0
	return r
}

// command returns the first command with only known names, or the empty string.
func (r *Reason) command(commands string) string {
	names := map[string]string{
		"queue": r.Queue, "limit": r.Limit, "group": r.Group, "key": r.Key, "member": r.Member,
		"jid": r.JID, "max": strconv.Itoa(2 * r.Max),
	}
	if r.JID == "" && len(r.JIDs) > 0 {
		names["jid"] = r.JIDs[0]
	}
	if len(r.Blockers) > 0 {
		names["blocker"] = r.Blockers[0].JID
	}
	if strings.HasSuffix(r.Key, "j:"+r.JID) {
		names["record"] = r.JID // the key is the record of a job
	}
	for command := range strings.SplitSeq(commands, " | ") {
		missing := false
		words := strings.Fields(command)
		for i, word := range words {
			words[i] = units.Quote(placeholder.ReplaceAllStringFunc(word, func(name string) string {
				value := names[strings.Trim(name, "{}")]
				missing = missing || value == ""
				return value
			}))
		}
		if !missing {
			return strings.Join(words, " ")
		}
	}
	return ""
}

// placeholder is a name in a command.
var placeholder = regexp.MustCompile(`\{[a-z]+\}`)
