package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/tests/scripts"
)

// tapped is a script run by a client.
type tapped struct {
	script string
	trip   string   // the names of all scripts that went in the same round trip
	args   []string // the arguments after the namespace and the time
	reply  any
	err    error
	idle   bool // a reserve after which the worker is idle and listens
	at     time.Time
}

// A changing is something that tests wait for, guarded by the mutex.
type changing struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change
}

func newChanging() changing { return changing{changed: make(chan struct{})} }

// change reports a change. The caller holds the mutex.
func (c *changing) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// until waits until a condition is true, which is checked with the mutex. It returns false if that
// takes too long.
func (c *changing) until(is func() bool) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		c.mu.Lock()
		done, changed := is(), c.changed
		c.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// A tap sees, and may disturb, every script run by a client.
type tap struct {
	test     testing.TB
	observer *redis.Client // hidden from the tap

	changing
	calls  []tapped
	around map[string]func(send func() error) error
	refuse func(script string, args []any) error // an error becomes the server's answer
	answer func(cmd redis.Cmder)                 // may look at answers, and change them

	offline atomic.Bool // connections can't be opened
}

var errOffline = errors.New("offline")

func (e *env) newTap() *tap {
	around := map[string]func(func() error) error{}
	return &tap{test: e.T, observer: e.Redis, changing: newChanging(), around: around}
}

// instead calls run instead of sending a script, or a pipeline with it. run may call send, and the
// client gets its error as the answer. A nil run ends that.
func (p *tap) instead(script string, run func(send func() error) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.around[script] = run
}

// once is instead for the next call only.
func (p *tap) once(script string, run func(send func() error) error) {
	p.instead(script, func(send func() error) error {
		p.instead(script, nil)
		return run(send)
	})
}

// gate holds back every call of a script until open is called, either before it is sent, or before
// its answer arrives. It reports each call.
func (p *tap) gate(script string, answered bool) (arrived <-chan bool, open func()) {
	seen, opened := make(chan bool, 1000), make(chan struct{})
	open = sync.OnceFunc(func() { close(opened) })
	p.test.Cleanup(open) // before the worker is stopped
	p.instead(script, func(send func() error) error {
		if answered {
			err := send()
			seen <- true
			<-opened
			return err
		}
		seen <- true
		<-opened
		return send()
	})
	return seen, open
}

// A serverError is an error in a server's answer.
type serverError string

func (s serverError) Error() string { return string(s) }
func (serverError) RedisError()     {}

// refuseWith answers calls with the error returned by a function, and sends the others.
func (p *tap) refuseWith(refuse func(script string, args []any) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// onAnswer calls a function with each answered command. It may change the answer.
func (p *tap) onAnswer(answer func(cmd redis.Cmder)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// refuseIf answers calls that match with an error, and reports each.
func (p *tap) refuseIf(match func(script string, args []any) bool, answer error) <-chan bool {
	refused := make(chan bool, 1000)
	p.refuseWith(func(script string, args []any) error {
		if !match(script, args) {
			return nil
		}
		refused <- true
		return answer
	})
	return refused
}

// refuseScript answers every call of a script with an error, and reports each.
func (p *tap) refuseScript(name string, answer error) <-chan bool {
	return p.refuseIf(func(script string, _ []any) bool { return script == name }, answer)
}

// refuseOutcome answers every script that ends the hold on a job with an error, and reports each.
func (p *tap) refuseOutcome(jid string, answer error) <-chan bool {
	return p.refuseIf(func(script string, args []any) bool {
		return script == "finish" && slices.Contains(args, any(jid))
	}, answer)
}

// passing returns the commands not refused.
func (p *tap) passing(cmds []redis.Cmder) []redis.Cmder {
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse == nil {
		return cmds
	}
	var rest []redis.Cmder
	for _, cmd := range cmds {
		if err := refuse(scriptName(cmd), cmd.Args()); err != nil {
			cmd.SetErr(err)
		} else {
			rest = append(rest, cmd)
		}
	}
	return rest
}

// await waits for the nth call that matches.
func (p *tap) await(t testing.TB, what string, n int, match func(tapped) bool) (found tapped) {
	t.Helper()
	seen := p.until(func() bool {
		left := n
		for _, found = range p.calls {
			if match(found) {
				left--
			}
			if left == 0 {
				return true
			}
		}
		return false
	})
	if !seen {
		require.FailNow(t, "not seen", "%s, %d times, among\n%s", what, n, p)
	}
	return found
}

// String returns all calls, for the messages of failed tests.
func (p *tap) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all strings.Builder
	for _, c := range p.calls {
		fmt.Fprintf(&all, "%s %.200q: %.500q %v\n", c.script, c.args, c.reply, c.err)
	}
	return all.String()
}

// count returns the number of matching calls.
func (p *tap) count(match func(tapped) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, c := range p.calls {
		if match(c) {
			n++
		}
	}
	return n
}

// of matches the answered calls of a script.
func of(script string) func(tapped) bool {
	return func(c tapped) bool { return c.script == script && c.err == nil }
}

// unanswered matches the calls of a script that have failed.
func unanswered(script string) func(tapped) bool {
	return func(c tapped) bool { return c.script == script && c.err != nil }
}

// reported is a worker's report about a job, and the server's answer.
type reported struct{ action, answer string }

// outcomes returns the reports in a call of finish, by jid.
func (c tapped) outcomes() map[string]reported {
	answers, _ := c.reply.([]any)
	all := map[string]reported{}
	if c.script != "finish" || c.err != nil {
		return all
	}
	n := 0
	add := func(jid, action string) {
		answer := "complete" // the script returns nothing if all are
		if len(answers) > 0 {
			answer = fmt.Sprint(answers[n])
		}
		all[jid] = reported{action, answer}
		n++
	}
	for at := 1; at < len(c.args); {
		extra := 0
		if c.args[at] == "completed" {
			_, _ = fmt.Sscan(c.args[at+2], &extra)
			for _, jid := range c.args[at+3 : at+3+extra] {
				add(jid, "complete")
			}
			at += 3 + extra
			continue
		}
		add(c.args[at+1], c.args[at])
		_, _ = fmt.Sscan(c.args[at+4], &extra)
		at += 5 + extra
	}
	return all
}

func (p *tap) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p.offline.Load() {
			return nil, errOffline
		}
		return next(ctx, network, addr)
	}
}

func (p *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return p.pass([]redis.Cmder{cmd}, func() error {
			if len(p.passing([]redis.Cmder{cmd})) == 0 {
				return cmd.Err()
			}
			err := next(ctx, cmd)
			cmd.SetErr(err) // the client does so when the hooks are done
			return err
		})
	}
}

func (p *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return p.pass(cmds, func() error {
			if rest := p.passing(cmds); len(rest) > 0 {
				return next(ctx, rest)
			}
			return nil
		})
	}
}

// pass sends commands, or lets around do so, and records the scripts among them.
func (p *tap) pass(cmds []redis.Cmder, send func() error) error {
	var around func(func() error) error
	var trip []string
	p.mu.Lock()
	answer := p.answer
	for _, cmd := range cmds {
		name := scriptName(cmd)
		trip = append(trip, name)
		if run := p.around[name]; run != nil {
			around = run
		}
	}
	p.mu.Unlock()
	var err error
	if around == nil {
		if err = send(); err != nil && !slices.ContainsFunc(cmds, hasFailed) {
			setErrors(cmds, err) // nothing was sent; the client does so when the hooks are done
		}
	} else if err = around(func() error { _ = send(); return nil }); err != nil {
		setErrors(cmds, err)
	} else if err = cmds[0].Err(); len(cmds) > 1 {
		err = nil
	}
	for _, cmd := range cmds {
		if answer != nil {
			answer(cmd)
		}
		p.note(cmd, strings.Join(trip, " "))
	}
	return err
}

func hasFailed(cmd redis.Cmder) bool { return cmd.Err() != nil }

func setErrors(cmds []redis.Cmder, err error) {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}

func (p *tap) note(cmd redis.Cmder, trip string) {
	name := scriptName(cmd)
	if name == "" || redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return
	}
	c := tapped{script: name, trip: trip, err: cmd.Err(), at: time.Now()}
	if c.err == redis.Nil {
		c.err = nil
	}
	for _, arg := range cmd.Args()[6:] {
		c.args = append(c.args, fmt.Sprint(arg))
	}
	if reply, ok := cmd.(interface{ Val() any }); ok {
		c.reply = reply.Val()
	}
	if name == "reserve" && c.err == nil && c.args[1] != "0" && c.reply.([]any)[1] != "0" {
		channel := "ql:x:wake:" + c.args[0]
		c.idle = p.observer.PubSubNumSub(context.Background(), channel).Val()[channel] == 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, c)
	p.change()
}

// scriptName returns the command of ours run by a Redis command, if any.
func scriptName(cmd redis.Cmder) string { return scripts.CommandOf(cmd.Args()) }
