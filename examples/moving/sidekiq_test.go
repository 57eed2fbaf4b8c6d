package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// ruby is a script that makes Sidekiq itself write jobs: a waiting job, a scheduled job, a job that
// has failed once, and a job as pushed by ActiveJob's adapter.
const ruby = `
require 'sidekiq'
require 'sidekiq/job_retry'
Sidekiq.logger.level = Logger::FATAL
Sidekiq.configure_client { |config| config.redis = { url: ARGV[0] } }

class Failing
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', retry: 3
end

class Now
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', tags: ['a', 'b']
end

class Later
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', retry: false
end

Failing.perform_async
job = Sidekiq.redis { |r| r.rpop('queue:mail') }
begin
  Sidekiq::JobRetry.new.global(job, 'mail') { raise 'not today' }
rescue Sidekiq::JobRetry::Handled
end
Now.perform_async(7, { 'to' => 'ann' })
Later.perform_in(86400, 'x')
Sidekiq::Client.push('class' => 'Sidekiq::ActiveJob::Wrapper', 'wrapped' => 'WelcomeJob',
  'queue' => 'mail', 'args' => [{ 'job_class' => 'WelcomeJob', 'arguments' => [7] }])
`

func (e *env) sidekiq(script string) {
	e.Helper()
	text, err := exec.CommandContext(e.Context(), "ruby", "-e", script,
		"redis://"+e.redis.Addr()).CombinedOutput()
	require.NoError(e, err, "the test needs Sidekiq: run .ci/install sidekiq: %s", text)
}

// push pushes entries into a queue of Sidekiq, in order.
func (e *env) push(queue string, entries ...string) {
	e.Helper()
	require.NoError(e, e.rdb.SAdd(e.Context(), e.prefix+"queues", queue).Err())
	for _, entry := range entries {
		require.NoError(e, e.rdb.LPush(e.Context(), e.prefix+"queue:"+queue, entry).Err())
	}
}

func TestJobsOfSidekiq(t *testing.T) {
	e := newEnv(t)
	e.sidekiq(ruby)
	require.NoError(t, e.moveSidekiq(t.Context()))
	require.Equal(t, 4, e.moved)
	require.Empty(t, e.left)
	require.Empty(t, e.fields)
	jobs := e.jobs("mail", inspect.Waiting, inspect.Scheduled)
	require.Len(t, jobs, 4)
	require.Len(t, jobs["Now"].JID, 24)
	require.Equal(t, `[7,{"to":"ann"}]`, string(jobs["Now"].Data))
	require.Equal(t, 25, jobs["Now"].Retries)
	require.Equal(t, qless.Tags{"a", "b"}, jobs["Now"].Tags)
	require.Equal(t, qless.StateWaiting, jobs["Now"].State)
	require.Equal(t, 0, jobs["Later"].Retries)
	require.WithinDuration(t, later(24*time.Hour), jobs["Later"].Due, time.Minute)
	require.Equal(t, 2, jobs["Failing"].Retries, "of 3, one is used up")
	require.Equal(t, qless.StateScheduled, jobs["Failing"].State)
	require.Equal(t, `[{"job_class":"WelcomeJob","arguments":[7]}]`, string(jobs["WelcomeJob"].Data))
	left, err := e.rdb.Exists(t.Context(), "queue:mail", "schedule", "retry", moving).Result()
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestJobsOfSidekiqAreMovedOnceEach(t *testing.T) {
	e := newEnv(t)
	e.sidekiq(ruby)
	e.push("mail", `{"class":"A","jid":"same","args":[]}`, `{"class":"B","jid":"same","args":[]}`)
	e.killed(e.moveSidekiq)
	require.Equal(t, 6, e.moved)
	require.Empty(t, e.left)
}

func TestAnEntryThatCanNotBeMovedStopsNoOther(t *testing.T) {
	e := newEnv(t)
	odd := []string{
		`{"class":"NoJID","args":[]}`, `not JSON`, `[1]`, "", `{"jid":"noclass","args":[]}`,
		`{"class":"K","jid":"a-history","args":[]}`,
		`{"class":"Member","jid":"member","args":[],"bid":"b1"}`,
		`{"class":"Large","jid":"large","args":["` + strings.Repeat("x", 9<<20) + `"]}`,
	}
	e.sidekiq(ruby)
	e.push("mail", odd...)
	const endless = `{"class":"K","jid":"endless","args":[]}`
	require.NoError(t, e.rdb.Do(t.Context(), "ZADD", "schedule", "inf", endless).Err())
	require.NoError(t, e.rdb.LPush(t.Context(), moving, "what is this").Err())
	for run := range 2 {
		e = e.again()
		require.NoError(t, e.moveSidekiq(t.Context()))
		require.Equal(t, 4*(1-run), e.moved)
		e.requireLeft(`qless:moving: "what is this": `, `schedule: K endless: its time`,
			`queue:mail: "{\"class\":\"NoJID\"`, `"not JSON"`, `"[1]"`, `""`, `noclass`,
			`a-history`, `member: its batch b1`, `Large large: `)
		entries, err := e.rdb.LRange(t.Context(), "queue:mail", 0, -1).Result()
		require.NoError(t, err)
		require.ElementsMatch(t, odd, entries)
		require.Equal(t, int64(1), e.rdb.ZCard(t.Context(), "schedule").Val())
	}
}

// Several entries may have the same jid, and even be equal.
func TestEntriesWithTheSameJIDAreAllMoved(t *testing.T) {
	e := newEnv(t)
	const entry = `{"class":"K","jid":"daily","args":[]}`
	e.push("mail", entry, entry)
	e.push("pay", entry)
	require.NoError(t, e.moveSidekiq(t.Context()))
	require.Equal(t, 3, e.moved)
	require.Equal(t, map[string]int{"K": 2}, e.worked("mail"))
	require.Equal(t, map[string]int{"K": 1}, e.worked("pay"))
	for range 3 {
		e = e.again()
		e.push("mail", entry)
		e.killed(e.moveSidekiq)
		require.Equal(t, 1, e.moved)
	}
}

func TestWhatSidekiqKnowsOfAJobIsKept(t *testing.T) {
	e := newEnv(t)
	e.push("mail", `{"class":"K","jid":"a","args":[],"expiry":`+
		later(time.Hour).Format("20060102")+`,"lock_digest":"d","locale":"de"}`,
		`{"class":"L","jid":"b","args":[],"retry":true,"retry_for":3600,"locale":"fr"}`)
	require.NoError(t, e.moveSidekiq(t.Context()))
	require.Equal(t, map[string]int{"lock_digest": 1, "locale": 2}, e.fields)
	jobs := e.jobs("mail", inspect.Waiting)
	require.False(t, jobs["K"].Options.TTL.IsZero())
	require.Equal(t, 7, jobs["L"].Retries, "after 0, 15, 31, 110, 366, 1006 and 2311 s")
}

func TestANamespaceOfSidekiqIsMoved(t *testing.T) {
	e := newEnv(t)
	e.sidekiq(ruby)
	for _, key := range []string{"queues", "queue:mail", "schedule", "retry"} {
		require.NoError(t, e.rdb.Rename(t.Context(), key, "app:"+key).Err())
	}
	require.ErrorContains(t, e.moveSidekiq(t.Context()), "no queue of Sidekiq is here")
	e.prefix = "app:"
	e.killed(e.moveSidekiq)
	require.Equal(t, 4, e.moved)
}
