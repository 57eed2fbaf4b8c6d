package outbox

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// skew is the maximum difference between the clocks of a program and of Redis.
const skew = time.Minute

// settleDoubts settles the rows that another relay or an earlier pass has taken, whose jobs may
// have been put and may be gone by now. It returns the rows whose jobs to put. If it returns an
// error, it has settled nothing.
func (m *move) settleDoubts(ctx context.Context, rows []row) ([]row, error) {
	var doubtful []string
	for _, r := range rows {
		if r.isDoubtful {
			doubtful = append(doubtful, r.jid)
		}
	}
	if len(doubtful) == 0 {
		return rows, nil
	}
	jobs, err := m.client.Jobs(ctx, doubtful...)
	if err != nil {
		return rows, err
	}
	memory, err := readMemory(ctx, m.client)
	if err != nil {
		return rows, err
	}
	there := map[string]bool{}
	for _, job := range jobs {
		there[job.JID] = true
	}
	return slices.DeleteFunc(rows, func(r row) bool {
		switch {
		case !r.isDoubtful:
			return false
		case there[r.jid]:
			m.done = append(m.done, r)
			m.pass.Known++
			return true
		case memory.mayLack(r, m.now):
			m.setAside(ctx, r, "a relay may have put the job at "+r.tried.UTC().Format(time.RFC3339)+
				", and the server may have deleted its record")
			return true
		}
		return false
	}), nil
}

// A memory tells how long a server keeps the records of ended jobs.
type memory struct {
	complete time.Duration // the shortest time that complete jobs are kept
	failed   time.Duration // the same for failed jobs, or qless.Forever
	since    time.Time     // complete jobs from then on are kept; zero means all
}

// readMemory reads the server's settings, and whether it has deleted complete jobs because there
// were too many.
func readMemory(ctx context.Context, client *qless.Client) (memory, error) {
	settings, err := client.Config().All(ctx)
	if err != nil {
		return memory{}, err
	}
	m := memory{
		complete: seconds(settings[qless.ConfigJobsHistory], 0),
		failed:   seconds(settings[qless.ConfigJobsFailedHistory], qless.Forever),
	}
	if settings[qless.ConfigJobsFailedHistoryCount] != "" {
		m.failed = 0
	}
	page, err := inspect.New(client).Completed().JIDs(ctx, inspect.Range{Limit: 1})
	count, _ := strconv.Atoi(settings[qless.ConfigJobsHistoryCount]) // 0 if damaged
	if err != nil || page.Total < count {
		return m, err
	}
	m.since = time.Now()
	page, err = inspect.New(client).Completed().JIDs(ctx, inspect.Range{Offset: max(page.Total-1, 0)})
	if err != nil || len(page.Items) == 0 {
		return m, err
	}
	jobs, err := client.Jobs(ctx, page.Items[0])
	if err == nil && len(jobs) == 1 && len(jobs[0].History) > 0 {
		m.since = jobs[0].History[len(jobs[0].History)-1].When
	}
	return m, err
}

// seconds parses a setting as a duration, and returns otherwise if there is none.
func seconds(setting string, otherwise time.Duration) time.Duration {
	n, err := strconv.ParseFloat(setting, 64)
	if err != nil {
		return otherwise
	}
	return time.Duration(n * float64(time.Second))
}

// mayLack reports whether the job of a row may have been put, ended and deleted by now.
func (m *memory) mayLack(r row, now time.Time) bool {
	var options struct {
		KeepFor       *string `json:"keep_for"`
		KeepFailedFor *string `json:"keep_failed_for"`
		Replace       bool    `json:"replace"`
	}
	if json.Unmarshal([]byte(r.options), &options) != nil || options.Replace {
		return false // a put reports its problem, or replaces the job
	}
	age := now.Sub(r.tried) + skew
	complete, failed := shorter(m.complete, options.KeepFor), m.failed
	if options.KeepFailedFor != nil {
		failed = shorter(qless.Forever, options.KeepFailedFor)
	}
	return age > complete || failed != qless.Forever && age > failed ||
		!m.since.IsZero() && m.since.After(r.tried.Add(-skew))
}

// shorter returns the shorter of d and a duration in the options, which may be missing.
func shorter(d time.Duration, text *string) time.Duration {
	if text == nil {
		return d
	}
	given, err := time.ParseDuration(*text)
	if err != nil || d != qless.Forever && d < given {
		return d
	}
	return given
}
