package mixed

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// Each job is run and completed, regardless of the programs that put and run it, while gateways and
// programs are killed.
func TestJobsOfAllSurviveKills(t *testing.T) {
	seed := testkit.Seed(t)
	redis := testkit.Start(t)
	rdb := redis.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	configure(t, client)

	f := newFleet(t, rand.New(rand.NewPCG(seed, 0)))
	lmstfy, workq := []string{freeAddr(t), freeAddr(t)}, []string{freeAddr(t), freeAddr(t)}
	all := settings{URL: "redis://" + redis.Addr(), Lmstfy: lmstfy, Workq: workq}
	for i := range lmstfy {
		f.start(all.as(lmstfyGateway, lmstfy[i]), all.as(workqGateway, workq[i]))
	}
	kinds := []string{lmstfyProgram, workqProgram, qlessProgram}
	if pythonCommand(t, all) != nil {
		kinds = append(kinds, pythonProgram)
	}
	for _, kind := range kinds {
		f.start(all.as(kind, ""), all.as(kind, ""))
	}

	f.killSome(*killFor)
	f.endPuts()
	f.drain(client)
	f.stop(kinds...)
	f.stop(lmstfyGateway, workqGateway)
	f.verify(client, rdb, kinds)
}

// as returns the settings for a process.
func (s settings) as(kind, addr string) settings {
	s.Kind, s.Addr = kind, addr
	return s
}

// configure makes locks expire soon, and keeps the records of jobs until checked.
func configure(t *testing.T, client *qless.Client) {
	for option, value := range map[string]any{
		"heartbeat":          lockSeconds * time.Second,
		"grace-period":       100 * time.Millisecond,
		"jobs-history-count": 10_000_000,
	} {
		require.NoError(t, client.Config().Set(t.Context(), option, value))
	}
}

func freeAddr(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// drain waits until all jobs have run, and none is waiting or locked.
func (f *fleet) drain(client *qless.Client) {
	f.t.Helper()
	var last string
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		last = f.left(client)
		if last == "" {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", patience, last)
		}
	}
}

// left describes the jobs that are left.
func (f *fleet) left(client *qless.Client) string {
	if put, jid := f.missing(); jid != "" {
		return fmt.Sprintf("%s is not run, one of %d jobs", jid, put)
	}
	counts, err := client.Queues(f.t.Context())
	require.NoError(f.t, err)
	for _, c := range counts {
		if c != (qless.QueueCounts{Name: c.Name}) {
			return fmt.Sprintf("%+v", c)
		}
	}
	return ""
}

// verify checks the final state after all processes have ended.
func (f *fleet) verify(client *qless.Client, rdb *redis.Client, kinds []string) {
	f.t.Helper()
	assert.Empty(f.t, f.odd, "what must not happen")
	f.verifyJobs(client)
	failed, err := inspect.New(client).FailureGroups(f.t.Context())
	require.NoError(f.t, err)
	assert.Empty(f.t, failed)
	verifyKeys(f.t, rdb)
	f.verifyMix(kinds)
	f.t.Logf("%d jobs; killed %v", len(f.puts), f.kills)
}

// verifyJobs checks that each job is complete, or was deleted by a consumer of lmstfy.
func (f *fleet) verifyJobs(client *qless.Client) {
	f.t.Helper()
	jids := slices.Collect(maps.Keys(f.puts))
	for some := range slices.Chunk(jids, 500) {
		jobs, err := client.Jobs(f.t.Context(), some...)
		require.NoError(f.t, err)
		found := map[string]bool{}
		for _, job := range jobs {
			found[job.JID] = true
			assert.Equal(f.t, qless.StateComplete, job.State, job.JID)
		}
		for _, jid := range some {
			by := f.puts[jid]
			if !found[jid] && by != lmstfyProgram && !f.ran[plain(jid)][lmstfyProgram] {
				f.t.Errorf("%s, put by %s, is lost; it was run by %v", jid, by, f.ran[plain(jid)])
			}
		}
	}
}

// verifyMix checks that each kind of program has run jobs of every other suitable kind.
func (f *fleet) verifyMix(kinds []string) {
	f.t.Helper()
	mix := map[string]int{}
	for jid, by := range f.puts {
		for worker := range f.ran[plain(jid)] {
			mix[by+" to "+worker]++
		}
	}
	f.t.Log(mix)
	for _, by := range kinds {
		for _, worker := range kinds {
			if by != lmstfyProgram || worker != workqProgram {
				assert.Positive(f.t, mix[by+" to "+worker], "jobs of %s, run by %s", by, worker)
			}
		}
	}
}
