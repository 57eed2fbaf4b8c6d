package web

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// onceName is the name of the input by which a form is known that is sent twice: by a double click,
// or because a page that followed it was loaded again. Its deed is done once. Deeds that change
// nothing when they are done twice have no need of it.
const onceName = "once"

// Once is a word that no other page has, for forms. Updates of a page have the same one.
func (f *frame) Once() string {
	if f.once == "" {
		f.once, _ = f.Request.Context().Value(isFragment{}).(string)
	}
	if f.once == "" {
		f.once = newID()
	}
	return f.once
}

// onceOf returns what a form is known by, or nothing if it may be sent twice.
func (s *site) onceOf(q *request) string {
	if !q.deed.isNew || q.form.Get(onceName) == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(s.base + "\n" + string(q.action) + "\n" + q.form.Encode()))
	return hex.EncodeToString(sum[:16])
}

// maxRepeats is how many forms are known.
const maxRepeats = 200

// repeats are the runs of the last forms.
type repeats struct {
	mu    sync.Mutex
	runs  map[string]*run
	order []string
}

// first returns the run of the form that has come before, or else notes this one and returns it.
func (a *repeats) first(one *run) *run {
	if one.once == "" {
		return one
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.runs[one.once]; before != nil {
		return before
	}
	if a.runs == nil {
		a.runs = map[string]*run{}
	}
	a.runs[one.once] = one
	a.order = append(a.order, one.once)
	if len(a.order) > maxRepeats {
		delete(a.runs, a.order[0])
		a.order = a.order[1:]
	}
	return one
}

// forget has a form that has done nothing be sent again.
func (a *repeats) forget(one *run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[one.once] == one {
		delete(a.runs, one.once)
	}
}
