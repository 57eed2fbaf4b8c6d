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
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// command returns the command of a check, with the flags --warn and --crit.
func (c *checker) command(
	use, short, long, example string, args cobra.PositionalArgs, kinds []kindOfThreshold,
	look func(ctx context.Context, client *qless.Client, args []string, r *checkResult,
		warn, crit *thresholdFlag) error,
) *cobra.Command {
	warn, crit := thresholds(kinds...)
	name, _, _ := strings.Cut(use, " ")
	command := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Example: example, Args: checkArgs(args),
		RunE: c.check(name, func(
			ctx context.Context, client *qless.Client, args []string, r *checkResult,
		) error {
			return look(ctx, client, args, r, warn, crit)
		}),
	}
	command.Flags().Var(warn, "warn", "thresholds of WARNING")
	command.Flags().Var(crit, "crit", "thresholds of CRITICAL")
	return command
}

func (c *checker) queueCommand() *cobra.Command {
	return c.command("queue NAME", "Check how many jobs of a queue wait, and for how long",
		"Thresholds: age is the wait of the oldest job that could run, waiting the number of waiting\n"+
			"jobs, and stalled the number of jobs that have lost their workers. Larger figures alert.",
		"  qless check queue mail --warn 1m --crit 10m\n"+
			"  qless check queue mail --warn age=1m,waiting=1000 --format nagios",
		cobra.ExactArgs(1), []kindOfThreshold{
			{name: "age", unit: "s", warn: doctor.Late.String(), crit: (3 * doctor.Late).String()},
			{name: "waiting"}, {name: "stalled"},
		}, checkQueue)
}

func checkQueue(
	ctx context.Context, client *qless.Client, args []string, r *checkResult,
	warn, crit *thresholdFlag,
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
	r.judge("age", "s", oldest.Seconds(), warn, crit)
	r.judge("waiting", "", float64(counts.Waiting), warn, crit)
	r.judge("stalled", "", float64(counts.Stalled), warn, crit)
	r.judge("running", "", float64(counts.Running), warn, crit)
	r.judge("scheduled", "", float64(counts.Scheduled), warn, crit)
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
		"Thresholds: registered is the number of registered workers, which Go workers are: a smaller\n"+
			"number alerts. busy is the share of their slots in use, and stalled the number of jobs that\n"+
			"have lost their workers: larger figures alert.",
		"  qless check workers --warn 3 --crit 1\n"+
			"  qless check workers --queue mail --warn registered=3,busy=90%",
		cobra.NoArgs, []kindOfThreshold{
			{name: "registered", crit: "1", below: true}, {name: "busy", unit: "%"}, {name: "stalled"},
		}, func(ctx context.Context, client *qless.Client, _ []string, r *checkResult,
			warn, crit *thresholdFlag,
		) error {
			r.Queue = queue
			return checkWorkers(ctx, client, r, warn, crit)
		})
	command.Flags().StringVar(&queue, "queue", "", "only workers that take jobs from this queue")
	return command
}

func checkWorkers(
	ctx context.Context, client *qless.Client, r *checkResult, warn, crit *thresholdFlag,
) error {
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
	r.judge("registered", "", float64(known), warn, crit)
	share := 0.0
	if slots > 0 {
		share = 100 * float64(busy) / float64(slots)
	}
	r.judge("busy", "%", share, warn, crit)
	r.judge("slots", "", float64(slots), warn, crit)
	r.judge("stalled", "", float64(stalled), warn, crit)
	r.judge("silent", "", float64(silent), warn, crit)
	return nil
}

// The numbers of failed jobs that are read to find the new ones, in all and of a group.
const failuresLooked, failuresOfGroup = 10_000, 1000

func (c *checker) failuresCommand() *cobra.Command {
	var group string
	var since time.Duration
	command := c.command("failures", "Check how many jobs have failed, and how many recently",
		"Thresholds: failed is the number of failed jobs, and new the number that failed in the\n"+
			"time of --since. Larger figures alert. The check reads the latest 1000 jobs of each\n"+
			"group, and 10,000 in all, with 2 commands on the server for each.",
		"  qless check failures --warn 0 --crit 50 --since 10m\n"+
			"  qless check failures --group timeout --crit new=50,failed=10000",
		cobra.NoArgs, []kindOfThreshold{
			{name: "new", warn: "0", crit: fmt.Sprint(doctor.ManyFailed)}, {name: "failed"},
		}, func(ctx context.Context, client *qless.Client, _ []string, r *checkResult,
			warn, crit *thresholdFlag,
		) error {
			r.Group = group
			return checkFailures(ctx, client, r, since, warn, crit)
		})
	command.Flags().StringVar(&group, "group", "", "only this failure group")
	command.Flags().DurationVar(&since, "since", 10*time.Minute, "what counts as new")
	return command
}

func checkFailures(
	ctx context.Context, client *qless.Client, r *checkResult, since time.Duration,
	warn, crit *thresholdFlag,
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
	r.judge("new", "", float64(fresh), warn, crit)
	r.judge("failed", "", float64(total), warn, crit)
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
		"Thresholds: memory is the used share of maxmemory, evicted the number of keys that the server\n"+
			"has evicted since its start, ping its response time, and unsaved the age of the oldest\n"+
			"unsaved changes if there is no append-only file. Larger figures alert. A snapshot or\n"+
			"append-only file that could not be written is CRITICAL, and so is a server that takes no\n"+
			"writes: the check tries one that changes nothing. A policy that evicts keys when the memory\n"+
			"is full is a WARNING. The user needs permission to run INFO, EVAL and EXISTS.",
		"  qless check server\n  qless check server --warn memory=70 --crit memory=90,ping=500ms",
		cobra.NoArgs, []kindOfThreshold{
			{name: "memory", unit: "%", warn: fmt.Sprint(100 * doctor.MemoryLow), crit: "95"},
			{name: "evicted", warn: "0"},
			{name: "ping", unit: "s", warn: "100ms", crit: "1s"}, {name: "unsaved", unit: "s", warn: "1h"},
		}, c.checkServer)
}

func (c *checker) checkServer(
	ctx context.Context, client *qless.Client, _ []string, r *checkResult,
	warn, crit *thresholdFlag,
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
	r.judge("ping", "s", ping.Seconds(), warn, crit)
	r.judgeMemory(info, warn, crit)
	r.judgePersistence(info, warn, crit)
	for _, danger := range doctor.ServerReasons(info, nil) {
		harmless := danger.Code == doctor.ReasonEvicts && info.number("maxmemory") == 0
		if status, known := dangers[danger.Code]; known && !harmless {
			r.warn(status, strings.TrimSuffix(strings.Replace(danger.Sentence, "The", "the", 1), "."))
		}
	}
	return nil
}

// dangers are the reasons that raise the status of a check, besides its thresholds.
var dangers = map[doctor.ReasonCode]int{
	doctor.ReasonPersistenceFailed: checkCritical, doctor.ReasonEvicts: checkWarning,
}

// An info is the reply of INFO.
type info map[string]string

func (i info) number(name string) float64 {
	n, _ := strconv.ParseFloat(i[name], 64) // 0 if the server does not report it
	return n
}

func (r *checkResult) judgeMemory(info info, warn, crit *thresholdFlag) {
	used, most := info.number("used_memory"), info.number("maxmemory")
	if most > 0 {
		r.judge("memory", "%", 100*used/most, warn, crit)
		r.Message += fmt.Sprintf(", %.0f %% of its memory used", 100*used/most)
	}
	r.judge("used", "B", used, warn, crit)
	evicted := info.number("evicted_keys")
	r.judge("evicted", "", evicted, warn, crit)
	if evicted > 0 {
		r.Message += fmt.Sprintf(", %s evicted", text.Count(int(evicted), "key"))
	}
}

func (r *checkResult) judgePersistence(info info, warn, crit *thresholdFlag) {
	saved := info.number("rdb_last_save_time")
	if info["aof_enabled"] == "1" || saved == 0 {
		return
	}
	unsaved := 0.0
	if info.number("rdb_changes_since_last_save") > 0 {
		unsaved = max(time.Since(time.Unix(int64(saved), 0)).Seconds(), 0)
	}
	r.judge("unsaved", "s", unsaved, warn, crit)
	if unsaved > 0 {
		r.Message += ", not saved for " + units.Age(time.Duration(unsaved*float64(time.Second)))
	}
}
