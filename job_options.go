package qless

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/qless/qless-go/internal/wire"
)

// A jobOptions holds the options of a job that qless-core does not know. The server keeps them in
// one field of the job's hash: letters that say which options there are, a bar, and this as JSON.
// See lua/lib/options.lua.
type jobOptions struct {
	Batch    *batchOption         `json:"b,omitempty"`
	Fair     *fairShare           `json:"g,omitempty"`
	Headers  map[string]string    `json:"h,omitempty"`
	Limits   wire.List[wire.Text] `json:"c,omitempty"`
	LockTime wire.Number          `json:"l,omitempty"` // in seconds
	OnLost   Place                `json:"q,omitempty"`
	Policy   *policy              `json:"f,omitempty"`
	Unique   *claim               `json:"u,omitempty"`
	Waited   bool                 `json:"-"`           // has a letter only
	Ends     wire.Number          `json:"n,omitempty"` // written by the server only

	// Times, or in a put seconds from then.
	StartBy *wire.Number `json:"s,omitempty"`
	TTL     *wire.Number `json:"t,omitempty"`
	AsTimes string       `json:"a,omitempty"`   // the letters of those that a put says as times
	PutAt   *wire.Number `json:"put,omitempty"` // when they were put; written by the server only

	// In seconds.
	KeepFor       *wire.Number `json:"k,omitempty"`
	KeepFailedFor *wire.Number `json:"K,omitempty"` // -1 for ever
	RunFor        *wire.Number `json:"e,omitempty"`
}

// letters returns the letter of each option that is set, which is the name of its value in the
// JSON.
func (o *jobOptions) letters() string {
	var letters []byte
	if o.Batch != nil {
		letters = append(letters, 'b')
	}
	if o.Fair != nil {
		letters = append(letters, 'g')
	}
	if len(o.Headers) > 0 {
		letters = append(letters, 'h')
	}
	if len(o.Limits) > 0 {
		letters = append(letters, 'c')
	}
	if o.LockTime > 0 {
		letters = append(letters, 'l')
	}
	if o.OnLost != "" {
		letters = append(letters, 'q')
	}
	if o.Policy != nil {
		letters = append(letters, 'f')
	}
	if o.Unique != nil {
		letters = append(letters, 'u')
	}
	if o.Waited {
		letters = append(letters, 'w')
	}
	for _, number := range []struct {
		letter byte
		value  *wire.Number
	}{{'s', o.StartBy}, {'t', o.TTL}, {'k', o.KeepFor}, {'K', o.KeepFailedFor}, {'e', o.RunFor}} {
		if number.value != nil {
			letters = append(letters, number.letter)
		}
	}
	return string(letters)
}

// text returns the options as the server keeps them, or the empty string if there are none.
func (o *jobOptions) text() string {
	letters := o.letters()
	if letters == "" {
		return ""
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // the fields have types that always marshal
	}
	return letters + "|" + string(raw)
}

// UnmarshalJSON reads what can be read: an option that is damaged counts as not set.
func (o *jobOptions) UnmarshalJSON(raw []byte) error {
	type plain jobOptions
	*o = jobOptions{}
	_ = json.Unmarshal(raw, (*plain)(o))
	return nil
}

// parseJobOptions reads what text returned.
func parseJobOptions(text string) jobOptions {
	_, raw, _ := strings.Cut(text, "|")
	o, _ := wire.DecodeJSON[jobOptions](raw) // none if they are damaged
	return o
}

// apply sets the fields of a job that show its options. The others are set already.
func (o *jobOptions) apply(j *Job) {
	j.Headers = o.Headers
	if o.Batch != nil {
		size := o.Batch.Total.Int()
		j.BatchSize = &size
	}
	if o.Fair != nil {
		j.Tenant, j.Weight = string(o.Fair.Tenant), float64(cmp.Or(o.Fair.Weight, 1))
	}
	j.Unique = o.Unique.shown()
	j.OnLost = o.OnLost
	j.Limits = wire.Strings(o.Limits)
	j.LockTime = max(o.LockTime.Duration(), 0)
	j.Ends = max(o.Ends.Int(), 0)
	if o.Policy != nil {
		j.OnFailure = o.Policy.Do
		j.Parents, j.FailedDependencies = o.Policy.Of, o.Policy.failures()
	}
	o.dropPast(j.History)
	o.applyLifetimes(j)
	j.Until = o.until(j)
}

// storedArgs returns the pairs of arguments for the options that the server keeps in one field: the
// options that the call sets, and the letters of those that it takes away from an existing job.
func (c *callOptions) storedArgs() []string {
	var args []string
	o := jobOptions{
		Fair: c.fair.share(), Headers: c.headers, Limits: c.limits.stored(), Policy: c.policy(),
		Unique: c.claim, Waited: c.waited,
	}
	c.storeLock(&o)
	c.storeLifetimes(&o)
	if c.batchSize != nil {
		o.Batch = &batchOption{Total: *c.batchSize}
	}
	if text := o.text(); text != "" {
		args = append(args, "o", text)
	}
	if drop := c.dropped(); drop != "" {
		args = append(args, "drop", drop)
	}
	return args
}

// dropped returns the letters of the options that the call takes away from an existing job.
func (c *callOptions) dropped() string {
	drop := ""
	if c.noHeaders && len(c.headers) == 0 {
		drop += "h"
	}
	if c.onLost != nil && *c.onLost == First {
		drop += "q"
	}
	return drop + c.droppedLifetimes()
}
