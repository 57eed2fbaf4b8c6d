package chaos

import (
	"archive/zip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// previousRelease is the commit from which a fleet may be upgraded. Update it after each release,
// together with testdata/previous.
const previousRelease = "cfd2f13"

// Processes of the previous release and of this one put and run the jobs of one queue. Killed
// processes are replaced by workers of the other release, to keep a mix of both.
func TestUpgrade(t *testing.T) {
	program := buildPrevious(t)
	for name, options := range map[string]bool{"plain_jobs": false, "newer_options": true} {
		t.Run(name, func(t *testing.T) { upgrade(t, program, options) })
	}
}

func upgrade(t *testing.T, program string, options bool) {
	const jobs, kills = 2_000, 15
	a := newArena(t, plan{
		jobs: jobs, work: 20 * time.Millisecond, concurrency: 10, shutdown: 5 * time.Second,
	})
	if options {
		for _, limit := range []string{"a", "b"} {
			require.NoError(t, a.client.Limit(limit).Set(a.ctx, qless.LimitConfig{Concurrency: 20}))
		}
	}
	programs := []string{"", program}
	var all []settings
	for i := range processes {
		s := a.worker(a.server.Addr())
		s.Program = programs[i%2]
		all = append(all, s)
	}
	for i, program := range programs {
		s := a.worker(a.server.Addr())
		s.Program = program
		s.Putting = &putting{
			From: i, To: a.jobs, Step: 2, Every: 2 * time.Millisecond,
			Micros: int(a.work.Microseconds()), Options: options,
		}
		all = append(all, s)
	}
	a.start(all...)
	for i := range kills {
		a.until((i + 1) * a.jobs / (kills + 2))
		a.replaceAny(func(p *process) {
			a.await(p.ready, "a process to start")
			a.kill(p)
			if p.settings.Putting != nil || a.workersOf(p.settings.Program) == 1 {
				return
			}
			if p.settings.Program == program {
				p.settings.Program = ""
			} else {
				p.settings.Program = program
			}
		})
	}
	a.until(a.jobs)
	a.stop()
	if options {
		a.fixLeftovers()
	}
	a.verify()
	a.verifyMix(program)
}

// workersOf returns the number of processes running a program without putting jobs.
func (a *arena) workersOf(program string) int {
	count := 0
	for _, p := range a.processes {
		if p.settings.Putting == nil && p.settings.Program == program {
			count++
		}
	}
	return count
}

// expectedLeftovers are the leftovers listed in docs/upgrading.md, and those of killed workers.
var expectedLeftovers = []doctor.ReasonCode{
	doctor.ReasonClaimLeft, doctor.ReasonSlotLeft, doctor.ReasonTurnLeft,
	doctor.ReasonDeadlineLacking, doctor.ReasonDeadlineLeft,
	doctor.ReasonIdleDead, doctor.ReasonClaimDead,
}

// fixLeftovers removes the leftovers of options unknown to the previous release. The doctor may
// find nothing else.
func (a *arena) fixLeftovers() {
	a.t.Helper()
	report, err := doctor.Examine(a.ctx, a.rdb, doctor.Options{Pause: -1})
	require.NoError(a.t, err)
	found := report.With(doctor.Leftover)
	fixed, err := doctor.Fix(a.ctx, a.rdb, doctor.Options{Pause: -1}, found...)
	require.NoError(a.t, err)
	kinds := map[doctor.ReasonCode]int{}
	for _, finding := range fixed {
		kinds[finding.Code]++
		assert.Contains(a.t, expectedLeftovers, finding.Code, finding.Sentence)
	}
	a.t.Logf("removed: %v", kinds)
	report, err = doctor.Examine(a.ctx, a.rdb, doctor.Options{Pause: -1})
	require.NoError(a.t, err)
	assert.Empty(a.t, report.With(doctor.Leftover), "after the repair of %d", len(found))
	// Limits stay forever, claims and the ends of lives until their time.
	require.NoError(a.t, a.rdb.Del(a.ctx, "ql:x:limits", "ql:x:until").Err())
	for _, key := range a.keys("ql:x:unique:*") {
		claim, err := a.rdb.Get(a.ctx, key).Result()
		require.NoError(a.t, err)
		assert.NotEqual(a.t, "0", strings.Fields(claim)[0], key)
		require.NoError(a.t, a.rdb.Del(a.ctx, key).Err())
	}
}

func (a *arena) keys(pattern string) []string {
	keys, err := a.rdb.Keys(a.ctx, pattern).Result()
	require.NoError(a.t, err)
	return keys
}

// verifyMix checks that both releases have run many jobs.
func (a *arena) verifyMix(program string) {
	runs := map[bool]int{}
	for _, r := range a.records {
		if r.Kind == started {
			runs[a.programs[r.Worker] == program]++
		}
	}
	a.t.Logf("runs by the previous release, and by this one: %d, %d", runs[true], runs[false])
	assert.Greater(a.t, runs[true], a.jobs/10)
	assert.Greater(a.t, runs[false], a.jobs/10)
}

// buildPrevious builds the program in testdata/previous with the previous release.
func buildPrevious(t *testing.T) string {
	dir := t.TempDir()
	archive := filepath.Join(dir, "previous.zip")
	root := run(t, ".", "git", "rev-parse", "--show-toplevel")
	if err := exec.Command("git", "cat-file", "-e", previousRelease+"^{commit}").Run(); err != nil {
		t.Skipf("the previous release, commit %s, is not in this clone: fetch the whole history, "+
			"with git fetch --unshallow", previousRelease)
	}
	run(t, root, "git", "archive", "--format=zip", "-o", archive, previousRelease)
	files, err := zip.OpenReader(archive)
	require.NoError(t, err)
	defer files.Close()
	tree := filepath.Join(dir, "previous")
	require.NoError(t, os.CopyFS(tree, files))
	require.NoError(t, os.CopyFS(filepath.Join(tree, "testprocess"), os.DirFS("testdata/previous")))
	program := filepath.Join(dir, "process")
	run(t, tree, "go", "build", "-o", program, "./testprocess")
	return program
}

// run runs a command in a folder, and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	text, err := command.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(args, " "), text)
	return strings.TrimSpace(string(text))
}
