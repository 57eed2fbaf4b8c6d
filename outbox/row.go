package outbox

import (
	"encoding/json"
	"time"

	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// An entry is a job in the outbox, or the commit of a batch.
type entry struct {
	inside.Put

	needs   []string // the jids of rows to put before this row
	batch   string   // the job's batch
	commits bool     // commits the batch
	text    string   // the options as text, if known
}

// stored is the form of the options in a row.
type stored struct {
	Options map[string]json.RawMessage `json:"options,omitempty"` // as in the JSON of a JobSpec
	Key     string                     `json:"key,omitempty"`     // the unique key
	Batch   string                     `json:"batch,omitempty"`
	Opens   bool                       `json:"opens,omitempty"` // the callback of a batch
	Commits bool                       `json:"commits,omitempty"`
}

// encode returns the options of an entry as text.
func (e *entry) encode() (string, error) {
	if e.text != "" {
		return e.text, nil
	}
	kept := stored{Batch: e.batch, Opens: e.Options.OpensBatch, Commits: e.commits}
	options := e.Options
	options.OpensBatch, options.Batch = false, nil
	if options.Claim != nil {
		kept.Key, options.Claim = options.Claim.Key, nil
	}
	text, err := options.JSON("", "null")
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, &kept.Options); err != nil {
		return "", err
	}
	delete(kept.Options, "klass")
	delete(kept.Options, "data")
	raw, err := json.Marshal(kept)
	return string(raw), err
}

// decode reads the options of an entry.
func (e *entry) decode(text string) error {
	var kept stored
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return err
	}
	o := &e.Options
	if err := o.Set(kept.Options); err != nil {
		return err
	}
	e.batch, e.commits = kept.Batch, kept.Commits
	if kept.Opens {
		o.OpensBatch, o.Batch = true, &jobopts.Batch{}
	}
	if !kept.Commits {
		o.MemberOf = kept.Batch
	}
	if o.Unique != nil && kept.Key != "" {
		o.Unique.Key = kept.Key
	}
	o.JID = "" // already an argument of the put
	if o.Unique == nil || !o.Unique.Replace {
		o.If = []string{"absent"}
	}
	return o.MakeClaim(e.Klass, e.Data)
}

// age shortens the delay and the lifetimes of a job by the age of its row. It reports whether the
// life of the job is over.
func (e *entry) age(now, created time.Time) (over bool) {
	o, age := &e.Options, max(now.Sub(created), 0)
	if o.Delay != nil {
		left := max(*o.Delay-age, 0)
		o.Delay = &left
	}
	for _, end := range []**jobopts.Deadline{&o.StartBy, &o.TTL} {
		switch d := *end; {
		case d == nil:
		case d.IsTime:
			over = over || d.Time().Before(now)
		default:
			left := d.Seconds.Duration() - age
			over = over || left < time.Millisecond
			*end = &jobopts.Deadline{Seconds: wire.Number(left.Seconds())}
		}
	}
	return over
}

// runsAnyway reports whether the job runs even if a parent can't.
func (e *entry) runsAnyway() bool {
	return e.commits || e.Options.OnFailure != nil && e.Options.OnFailure.Do == "run"
}
