package health

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// A checkFunc reads the state that it checks, and judges it.
type checkFunc func(
	ctx context.Context, client *qless.Client, args []string, r *checkResult,
) error

// command returns the command of a check, with the flags --warn and --crit.
func (c *checker) command(
	use, short string, look checkFunc, kinds ...kindOfThreshold,
) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short}
	command.Args = checkArgs(usage.Number(command))
	warn, crit := thresholds(kinds...)
	command.Flags().Var(warn, "warn", "thresholds of WARNING")
	command.Flags().Var(crit, "crit", "thresholds of CRITICAL")
	command.RunE = func(command *cobra.Command, args []string) error {
		return c.check(command, args, look, &checkResult{
			Check: command.Name(), Metrics: []metric{}, warnAt: warn.values, critAt: crit.values,
		})
	}
	return command
}

func (c *checker) queueCommand() *cobra.Command {
	return c.command("queue NAME", "Check how many jobs of a queue wait, and for how long",
		checkQueue, kindOfThreshold{
			name: "age", unit: "s", warn: doctor.Late.String(), crit: (3 * doctor.Late).String(),
		}, kindOfThreshold{name: "waiting"}, kindOfThreshold{name: "stalled"})
}

func checkQueue(
	ctx context.Context, client *qless.Client, args []string, r *checkResult,
) error {
	r.Queue = args[0]
	counts, err := client.Queue(r.Queue).Counts(ctx)
	if err != nil {
		return err
	}
	if err := isKnown(ctx, client, counts); err != nil {
		return err
	}
	latency, err := inspect.New(client).Latency(ctx, r.Queue)
	if err != nil {
		return err
	}
	oldest := latency.Oldest
	r.Message = fmt.Sprintf("%s waiting in %s", text.Count(counts.Waiting, "job"), text.Clean(r.Queue))
	if oldest > 0 {
		r.Message += ", the oldest for " + units.Age(oldest)
	}
	if counts.Paused {
		r.Message += ", the queue is paused"
	}
	r.judge("age", "s", oldest.Seconds())
	r.judge("waiting", "", float64(counts.Waiting))
	r.judge("stalled", "", float64(counts.Stalled))
	r.judge("running", "", float64(counts.Running))
	r.judge("scheduled", "", float64(counts.Scheduled))
	return nil
}

// isKnown returns an error for a queue that never had a job: its name may be wrong.
func isKnown(ctx context.Context, client *qless.Client, counts qless.QueueCounts) error {
	if counts.Waiting+counts.Running+counts.Scheduled+counts.Depends+counts.Recurring > 0 {
		return nil
	}
	queues, err := client.Queues(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(queues, func(q qless.QueueCounts) bool { return q.Name == counts.Name }) {
		return fmt.Errorf("no queue is called %q", counts.Name)
	}
	return nil
}

func (c *checker) workersCommand() *cobra.Command {
	var queue string
	command := c.command("workers", "Check how many workers there are",
		func(ctx context.Context, client *qless.Client, _ []string, r *checkResult) error {
			r.Queue = queue
			return checkWorkers(ctx, client, r)
		},
		kindOfThreshold{name: "registered", crit: "1", below: true},
		kindOfThreshold{name: "busy", unit: "%"}, kindOfThreshold{name: "stalled"})
	command.Flags().StringVar(&queue, "queue", "", "only workers that take jobs from this queue")
	return command
}

func checkWorkers(ctx context.Context, client *qless.Client, r *checkResult) error {
	workers, err := inspect.New(client).Workers(ctx)
	if err != nil {
		return err
	}
	var known, slots, busy, stalled, silent, gone int
	for _, w := range workers {
		if w.Info == nil {
			stalled += w.Stalled
			if w.Gone != nil {
				gone++
			} else {
				silent++
			}
			continue
		}
		if r.Queue != "" && !w.Info.TakesFrom(r.Queue) {
			continue
		}
		known++
		slots += w.Info.Slots
		busy += w.Jobs
		stalled += w.Stalled
	}
	r.Message = fmt.Sprintf("%s with %s, %d busy", text.Count(known, "worker"),
		text.Count(slots, "slot"), busy)
	if silent > 0 {
		r.Message += fmt.Sprintf(", %d more that say nothing of themselves", silent)
	}
	if gone > 0 {
		r.Message += fmt.Sprintf(", %d gone", gone)
	}
	r.judge("registered", "", float64(known))
	share := 0.0
	if slots > 0 {
		share = 100 * float64(busy) / float64(slots)
	}
	r.judge("busy", "%", share)
	r.judge("slots", "", float64(slots))
	r.judge("stalled", "", float64(stalled))
	r.judge("silent", "", float64(silent))
	return nil
}

// The numbers of failed jobs read to count the new failures, in total and of a group.
const failuresLooked, failuresOfGroup = 10_000, 1000

func (c *checker) failuresCommand() *cobra.Command {
	var group string
	var since time.Duration
	command := c.command("failures", "Check how many jobs have failed, and how many recently",
		func(ctx context.Context, client *qless.Client, _ []string, r *checkResult) error {
			r.Group = group
			return checkFailures(ctx, client, r, since)
		},
		kindOfThreshold{name: "new", warn: "0", crit: fmt.Sprint(doctor.ManyFailed)},
		kindOfThreshold{name: "failed"})
	command.Flags().StringVar(&group, "group", "", "only this failure group")
	command.Flags().DurationVar(&since, "since", 10*time.Minute, "what counts as new")
	return command
}

func checkFailures(
	ctx context.Context, client *qless.Client, r *checkResult, since time.Duration,
) error {
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		return err
	}
	if r.Group != "" {
		groups = map[string]int{r.Group: groups[r.Group]}
	}
	var total, fresh int
	worst, most, left := "", 0, failuresLooked
	for group, jobs := range groups {
		total += jobs
		found, looked, err := newFailures(ctx, client, group, time.Now().Add(-since), left)
		if err != nil {
			return err
		}
		left -= looked
		fresh += found
		if found > most || found == most && group < worst {
			worst, most = group, found
		}
	}
	r.Message = fmt.Sprintf("%s failed, %d of them in the last %s",
		text.Count(total, "job"), fresh, units.Age(since))
	if most > 0 {
		r.Message += fmt.Sprintf(", %d in %s", most, text.Clean(worst))
	}
	r.judge("new", "", float64(fresh))
	r.judge("failed", "", float64(total))
	return nil
}

// newFailures counts the jobs, among the latest of a group, that have failed since a time.
func newFailures(
	ctx context.Context, client *qless.Client, group string, since time.Time, left int,
) (found, looked int, err error) {
	const step = 100
	for offset := 0; offset < min(failuresOfGroup, left); offset += step {
		part := inspect.Range{Offset: offset, Limit: step}
		page, err := inspect.New(client).Failed(group).List(ctx, part)
		if err != nil {
			return 0, 0, err
		}
		looked += len(page.Items)
		for i := range page.Items {
			if page.Items[i].Since.Before(since) {
				return found, looked, nil
			}
			found++
		}
		if len(page.Items) < step {
			break
		}
	}
	return found, looked, nil
}

func (c *checker) serverCommand() *cobra.Command {
	return c.command("server", "Check the server: memory, evictions, persistence, response time",
		checkServer,
		kindOfThreshold{name: "memory", unit: "%", warn: fmt.Sprint(100 * doctor.MemoryLow), crit: "95"},
		kindOfThreshold{name: "evicted", warn: "0"},
		kindOfThreshold{name: "ping", unit: "s", warn: "100ms", crit: "1s"},
		kindOfThreshold{name: "unsaved", unit: "s", warn: "1h"})
}

func checkServer(
	ctx context.Context, client *qless.Client, _ []string, r *checkResult,
) error {
	refused := redisx.AskWrites(ctx, client.Redis(), client.Namespace()) // connects
	began := time.Now()
	if err := redisx.AskReads(ctx, client.Redis(), client.Namespace()); err != nil {
		return err
	}
	ping := time.Since(began)
	rdb, err := redisx.ServerOf(ctx, client.Redis(), client.Namespace())
	if err != nil {
		return err
	}
	raw, err := rdb.Info(ctx).Result()
	if err != nil {
		return err
	}
	info := info(redisx.ParseInfo(raw))
	r.Message = "the server answers"
	if version := info["redis_version"]; version != "" {
		r.Message = "Redis " + text.Clean(version) + " answers"
	}
	switch {
	case redisx.RefusesWrites(refused):
		r.warn(checkCritical, "it takes no writes")
	case redisx.Refusal(refused) == "NOPERM":
		r.Message += ", this user may only read"
	case refused != nil:
		return refused
	}
	r.judge("ping", "s", ping.Seconds())
	r.judgeMemory(info)
	r.judgePersistence(info)
	for _, danger := range doctor.ServerReasons(info, nil) {
		harmless := danger.Code == doctor.ReasonEvicts && info.number("maxmemory") == 0
		if status, known := dangers[danger.Code]; known && !harmless {
			r.warn(status, strings.TrimSuffix(strings.Replace(danger.Sentence, "The", "the", 1), "."))
		}
	}
	return nil
}

// dangers are the reasons that raise the status of a check, besides the check's thresholds.
var dangers = map[doctor.ReasonCode]int{
	doctor.ReasonPersistenceFailed: checkCritical, doctor.ReasonEvicts: checkWarning,
}

// An info is the reply of INFO.
type info map[string]string

func (i info) number(name string) float64 {
	n, _ := strconv.ParseFloat(i[name], 64) // 0 if not reported by the server
	return n
}

func (r *checkResult) judgeMemory(info info) {
	used, most := info.number("used_memory"), info.number("maxmemory")
	if most > 0 {
		r.judge("memory", "%", 100*used/most)
		r.Message += fmt.Sprintf(", %.0f %% of its memory used", 100*used/most)
	}
	r.judge("used", "B", used)
	evicted := info.number("evicted_keys")
	r.judge("evicted", "", evicted)
	if evicted > 0 {
		r.Message += fmt.Sprintf(", %s evicted", text.Count(int(evicted), "key"))
	}
}

func (r *checkResult) judgePersistence(info info) {
	saved := info.number("rdb_last_save_time")
	if info["aof_enabled"] == "1" || saved == 0 {
		return
	}
	unsaved := 0.0
	if info.number("rdb_changes_since_last_save") > 0 {
		unsaved = max(time.Since(time.Unix(int64(saved), 0)).Seconds(), 0)
	}
	r.judge("unsaved", "s", unsaved)
	if unsaved > 0 {
		r.Message += ", not saved for " + units.Age(time.Duration(unsaved*float64(time.Second)))
	}
}
