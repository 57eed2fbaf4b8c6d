package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

var (
	errDenied   = errors.New("this is not allowed here")
	errReadOnly = fmt.Errorf("%w: the dashboard is read-only", errDenied)
	errNoPerm   = fmt.Errorf("%w: Redis does not permit it to the dashboard's user", errDenied)
)

// may reports whether the user who makes a request may do something.
func (s *site) may(r *http.Request, action Action) bool { return s.refusal(r, action) == nil }

// refusal returns why the user who makes a request may not do something, or nil.
func (s *site) refusal(r *http.Request, action Action) error {
	options := &s.handler.options
	switch {
	case options.ReadOnly:
		return errReadOnly
	case options.Allow != nil && !options.Allow(r, action):
		return errDenied
	}
	if left := s.denials.left(action); left > 0 {
		return fmt.Errorf("%w; in %s it can be tried again", errNoPerm, left.Round(time.Second))
	}
	return nil
}

// denials are the actions that the server has refused because of its user.
type denials struct {
	mu    sync.Mutex
	until map[Action]time.Time
}

// denialAge is for how long such an action is not offered.
const denialAge = time.Minute

func (d *denials) add(action Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = map[Action]time.Time{}
	}
	d.until[action] = time.Now().Add(denialAge)
}

// left returns for how long an action is not offered any more.
func (d *denials) left(action Action) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.until[action])
}

// all returns the actions that are not offered.
func (d *denials) all() []Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Action
	for action, until := range d.until {
		if time.Now().Before(until) {
			all = append(all, action)
		}
	}
	slices.Sort(all)
	return all
}

// Denied are the actions whose buttons are off because the server refused them.
func (f *frame) Denied() []Action { return f.Site.denials.all() }

// isDenial reports whether the server refused a command because of its user.
func isDenial(err error) bool {
	if codeOf(err) != qless.CodeServer && codeOf(err) != qless.CodeInvalid {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "ACL failure in script") ||
		strings.Contains(text, "The user executing the script can't")
}
