// Package jobopts defines the options of jobs. Each has a row in [Table], which determines how to
// check, send, read and show the option, and its form in files and on the command line.
package jobopts

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Options are the options of a job, as given by a call or stored by the server. Nil and empty
// values mean an option is not given.
type Options struct {
	// Arguments of the commands that put a job.
	At        *time.Time
	Delay     *time.Duration
	DependsOn []string
	If        []string
	JID       string
	MustExist bool // the jobs of DependsOn
	Priority  *int
	Retries   *int
	Tags      []string // empty but not nil: the job loses its tags
	Unique    *Unique

	// Stored in the field x:o of the job: see lua/lib/options.lua.
	Batch         *Batch
	Claim         *Claim // made from Unique
	Ends          wire.Number
	Fair          *Fair
	Headers       map[string]string
	KeepFailedFor *Span
	KeepFor       *Span
	Limits        wire.List[wire.Text]
	LockTime      *Span
	MaxRunTime    *Span
	OnFailure     *Policy
	OnLost        string
	StartBy       *Deadline
	TTL           *Deadline
	Waited        bool

	PutAt wire.Number // the server's time of the put of StartBy and TTL

	OpensBatch bool   // the job is the callback of an open batch
	MemberOf   string // the batch of the job

	emptyJID bool // the given jid is empty

	cleared string // the letters of the options that the job loses
}

// SetJID sets the jid.
func (o *Options) SetJID(jid string) { o.JID, o.emptyJID = jid, jid == "" }

// Clear removes an option from an existing job, unless the option is also given.
func (o *Options) Clear(name string) { o.cleared += letterOf(name) }

// IsCleared reports whether an option was removed from the job.
func (o *Options) IsCleared(name string) bool { return strings.Contains(o.cleared, letterOf(name)) }

// letterOf returns the letter of the option with a name.
func letterOf(name string) string {
	for _, row := range stored {
		if row.Name == name {
			return row.Letter
		}
	}
	panic("jobopts: no letter for " + name)
}

// SetOnLost sets OnLost. Without OnLost, a lost job goes first.
func (o *Options) SetOnLost(place string) {
	if o.OnLost = place; place == "first" {
		o.OnLost = ""
		o.Clear("OnLost")
	}
}

// Extras returns the number of items that make the job cost more: its tags, its dependencies, its
// batch, and its stored options.
func (o *Options) Extras() int {
	n := len(o.Tags) + len(o.DependsOn)
	if o.MemberOf != "" {
		n++
	}
	for _, row := range stored {
		if isGiven(row.fieldOf(o)) {
			n++
		}
	}
	return n
}

// Merge adds options that come later in a call: lists are joined, and other options are replaced.
func (o *Options) Merge(later *Options) {
	for _, row := range stored {
		if strings.Contains(later.cleared, row.Letter) {
			reflect.ValueOf(row.fieldOf(o)).Elem().SetZero()
		}
	}
	before := *o
	into, from := reflect.ValueOf(o).Elem(), reflect.ValueOf(later).Elem()
	for i := range from.NumField() {
		if given := from.Field(i); !given.IsZero() && from.Type().Field(i).IsExported() {
			into.Field(i).Set(given)
		}
	}
	o.DependsOn = slices.Concat(before.DependsOn, later.DependsOn)
	o.If = slices.Concat(before.If, later.If)
	if before.Headers != nil {
		o.Headers = Joined(before.Headers, later.Headers)
	}
	o.cleared += later.cleared
}

// Joined returns the headers of two maps. The second one takes precedence.
func Joined(first, second map[string]string) map[string]string {
	all := make(map[string]string, len(first)+len(second))
	maps.Copy(all, first)
	maps.Copy(all, second)
	return all
}

// A Span is a duration. In JSON, it is a number of seconds, and -1 for Forever.
type Span time.Duration

// Forever is an unlimited time.
const Forever = -1

// MarshalJSON writes seconds.
func (s Span) MarshalJSON() ([]byte, error) {
	if s == Forever {
		return []byte("-1"), nil
	}
	return json.Marshal(time.Duration(s).Seconds())
}

// UnmarshalJSON reads seconds.
func (s *Span) UnmarshalJSON(raw []byte) error {
	var n wire.Number
	_ = n.UnmarshalJSON(raw) // never fails
	*s = Span(n.Duration())
	if n < 0 {
		*s = Forever
	}
	return nil
}

// A Deadline is the time at which something ends: in a put, a time or a number of seconds from the
// put; in a stored job, a time. Times are seconds since 1970.
type Deadline struct {
	Seconds wire.Number
	IsTime  bool
}

// After returns a deadline some time after the put.
func After(d time.Duration) *Deadline { return &Deadline{Seconds: wire.Number(d.Seconds())} }

// At returns a deadline at a time, or nil for the zero time.
func At(t time.Time) *Deadline {
	if t.IsZero() {
		return nil
	}
	return &Deadline{Seconds: wire.Number(float64(t.UnixMicro()) / 1e6), IsTime: true}
}

// MarshalJSON writes the number.
func (d Deadline) MarshalJSON() ([]byte, error) { return json.Marshal(d.Seconds) }

// UnmarshalJSON reads the number of a stored job.
func (d *Deadline) UnmarshalJSON(raw []byte) error {
	d.IsTime = true
	return d.Seconds.UnmarshalJSON(raw)
}

// Time returns the time of a stored deadline, or the zero time.
func (d *Deadline) Time() time.Time {
	if d == nil {
		return time.Time{}
	}
	return d.Seconds.Time()
}

// A Batch makes a job the callback of a batch: see lua/lib/batch.lua.
type Batch struct {
	Total wire.Number `json:"n"` // of members
}

// A Fair is the tenant of a job: see lua/lib/fair.lua.
type Fair struct {
	Tenant wire.Text   `json:"t"`
	Weight wire.Number `json:"w,omitempty"` // 0 means 1
}

// MarshalJSON leaves out the usual weight.
func (f Fair) MarshalJSON() ([]byte, error) {
	type plain Fair
	if f.Weight == 1 {
		f.Weight = 0
	}
	return json.Marshal(plain(f))
}

// UnmarshalJSON reads the undamaged fields.
func (f *Fair) UnmarshalJSON(raw []byte) error {
	type plain Fair
	*f = Fair{}
	_ = json.Unmarshal(raw, (*plain)(f))
	return nil
}

// fair returns the tenant of the options, for changes.
func (o *Options) fair() *Fair {
	if o.Fair == nil {
		o.Fair = &Fair{}
	}
	return o.Fair
}

// A Policy is the OnFailure of a job: see lua/lib/policies.lua.
type Policy struct {
	Do     string            `json:"do"`
	Of     []string          `json:"of,omitempty"`     // the job's original dependencies
	Failed map[string]string `json:"failed,omitempty"` // the groups of the failed dependencies
}

// UnmarshalJSON reads the undamaged fields.
func (p *Policy) UnmarshalJSON(raw []byte) error {
	type plain Policy
	*p = Policy{}
	_ = json.Unmarshal(raw, (*plain)(p))
	return nil
}

// policy returns the policy of the options, for changes.
func (o *Options) policy() *Policy {
	if o.OnFailure == nil {
		o.OnFailure = &Policy{}
	}
	return o.OnFailure
}

// Remembered reports whether the record of a new job is kept for at least d.
func (o *Options) Remembered(d time.Duration) bool {
	short := func(s *Span) bool { return s != nil && *s != Forever && time.Duration(*s) < d }
	return !short(o.KeepFor) && !short(o.KeepFailedFor) &&
		(o.TTL == nil || o.TTL.IsTime || o.TTL.Seconds.Duration() >= d)
}
