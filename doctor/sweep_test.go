package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// swept has all leftovers that a sweep removes, with the doctor's findings beforehand, and a cause
// that keeps the queue q waiting.
var swept = []struct {
	name     string
	make     func(e *env)
	findings string
	cause    string
	queues   []string // to sweep
}{
	{"the life of a waiting job is over", func(e *env) {
		e.put("q", "j", qless.TTL(time.Second))
	}, "expired_unswept x:until j", "expired_unswept", nil},
	{"the life of a scheduled job is over", func(e *env) {
		e.put("q", "j", qless.TTL(time.Second))
		e.redis("ZREM q:q-work j\nZADD q:q-scheduled 4000000000 j\nHSET j:j state scheduled")
	}, "expired_unswept x:until j", "expired_unswept", nil},
	{"the life of a job that others wait for is over", func(e *env) {
		e.put("other", "j", qless.TTL(time.Second))
		e.put("q", "after", qless.DependsOn{"j"}, qless.OnFailureRun)
	}, "expired_unswept x:until j", "expired_unswept", nil},
	{"the life of a job that waits for others is over", func(e *env) {
		e.put("other", "first")
		e.put("q", "j", qless.DependsOn{"first"}, qless.TTL(time.Second))
	}, "expired_unswept x:until j", "expired_unswept", nil},
	{"the life of a running job is over", func(e *env) {
		e.put("q", "j", qless.TTL(time.Second), qless.LockTime(time.Hour))
		e.pop("q", 1)
	}, "expired_unswept x:until j", "", nil},
	{"the record of a complete job is over", func(e *env) {
		e.put("q", "j", qless.KeepFor(time.Second))
		e.do(e.pop("q", 1)[0].Complete(e.ctx))
	}, "expired_unswept x:until j", "empty", nil},
	{"the record of a failed job is over", func(e *env) {
		e.put("q", "j", qless.KeepFailedFor(time.Second))
		e.do(e.pop("q", 1)[0].Fail(e.ctx, "g", "m"))
	}, "expired_unswept x:until j", "empty", nil},
	{"a failed job is too old", func(e *env) {
		e.put("q", "j")
		e.do(e.pop("q", 1)[0].Fail(e.ctx, "g", "m"))
		e.do(e.Config().Set(e.ctx, "jobs-failed-history", 30))
	}, "failed_unkept f:g", "empty", nil},
	{"failed jobs are too many", func(e *env) {
		e.put("q", "j k")
		for _, job := range e.pop("q", 2) {
			e.do(job.Fail(e.ctx, "g", "m"))
		}
		e.do(e.Config().Set(e.ctx, "jobs-failed-history-count", 1))
	}, "failed_unkept f:g", "empty", nil},
	{"another script has failed a job", func(e *env) {
		e.put("other", "bad")
		e.put("q", "runs", qless.DependsOn{"bad"}, qless.OnFailureRun)
		e.redis("ZREM q:other-work bad\nHSET j:bad state failed failure {\"group\":\"g\"}\n" +
			"LPUSH f:g bad\nSADD failures g")
	}, "not_notified j:runs", "not_notified", nil},
	{"a complete job has dependents left", func(e *env) {
		e.put("other", "first")
		e.put("q", "after", qless.DependsOn{"first"})
		e.do(e.pop("other", 1)[0].Complete(e.ctx))
		e.redis("SADD j:after-dependencies first\nHSET j:after state depends\nZREM q:q-work after\n" +
			"ZADD q:q-depends 1 after\nSADD x:rest:first after\nZADD x:rest " +
			fmt.Sprint(e.clock.Now().Unix()) + " first")
	}, "dependents_pending x:rest first", "expired_unswept", nil},
	{"a tracked job is gone", func(e *env) {
		e.put("q", "j")
		job := must(e.Job(e.ctx, "j"))(e.t)
		e.do(job.Track(e.ctx))
		e.do(job.Cancel(e.ctx))
	}, "tracked_gone tracked j", "empty", nil},
	{"a job is due", func(e *env) {
		e.put("q", "j", qless.Delay(time.Second))
	}, "overdue q:q-scheduled", "no_workers", []string{"q"}},
	{"a recurring job is due", func(e *env) {
		e.do(errOf(e.Queue("q").Recur(e.ctx, "K", nil, time.Hour, qless.JID("r"))))
	}, "overdue q:q-recur", "no_workers", []string{"*"}},
	{"a lock has ended", func(e *env) {
		e.put("q", "j")
		e.pop("q", 1)
	}, "stalled q:q-locks", "stalled", []string{"*"}},
}

func TestWhatASweepFreesIsNamedBefore(t *testing.T) {
	for _, test := range swept {
		t.Run(test.name, func(t *testing.T) {
			e := newEnv(t)
			test.make(e)
			require.Empty(t, strings.Join(e.found("not_notified failed_unkept tracked_gone"), ", "), "too early")
			e.clock.Advance(3 * time.Minute)
			require.Equal(t, test.findings, strings.Join(e.found(""), ", "))
			if test.cause != "" {
				require.Contains(t, strings.Fields(codes(e.why())), test.cause)
			}
			for range 3 { // the last one finds nothing
				e.do(errOf(inspect.New(e.Client).Sweep(e.ctx, test.queues...)))
			}
			require.Empty(t, e.found(""))
			require.NotContains(t, strings.Fields(codes(e.why())), "expired_unswept")
		})
	}
}

// found returns the doctor's findings, except for some kinds.
func (e *env) found(except string) (findings []string) {
	for _, f := range e.examine() {
		if !strings.Contains(except, string(f.Code)) {
			key := strings.TrimPrefix(f.Key, qless.DefaultNamespace)
			findings = append(findings, strings.TrimSpace(string(f.Code)+" "+key+" "+f.Member))
			require.Equal(e.t, doctor.Leftover, f.Gravity)
		}
	}
	return findings
}
