package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/cmd/qless/internal/cli"
)

func TestWhatIsPrinted(t *testing.T) {
	e := newStill(t)
	scene(t, e.Client())
	follow(t, e.Client())()
	for name, words := range map[string]string{
		"queue_show":      "queue show mail",
		"queue_stats":     "queue stats mail sms",
		"queue_peek":      "queue peek mail",
		"job_show":        "job show failed",
		"job_show_result": "job show done",
		"job_ls":          "job ls -q mail --bytes 10",
		"job_find":        "job find",
		"job_find_json":   "job find --jid failed-too --json",
		"failed_ls":       "failed ls",
		"failed_group":    "failed ls timeout",
		"failed_show":     "failed show timeout",
		"recur_ls":        "recur ls",
		"recur_show":      "recur show hourly",
		"schedule_ls":     "schedule ls",
		"schedule_show":   "schedule show nightly",
		"tag_ls":          "tag ls",
		"tag_jobs":        "tag jobs urgent",
		"limit_ls":        "limit ls",
		"limit_show":      "limit show shop",
		"limit_ls_json":   "limit ls --json",
		"worker_show":     "worker show test-worker",
	} {
		golden(t, name+".txt", e.ok(strings.Fields(words)...))
	}
}

func TestDurationsHaveTwoUnits(t *testing.T) {
	for d, text := range map[time.Duration]string{
		0:                              "0s",
		250 * time.Microsecond:         "250µs",
		850 * time.Millisecond:         "850ms",
		time.Second:                    "1s",
		2500 * time.Millisecond:        "2.5s",
		59 * time.Second:               "59s",
		5*time.Minute + 12*time.Second: "5m12s",
		time.Hour:                      "1h",
		76*time.Hour + 59*time.Minute:  "3d4h",
		-time.Minute:                   "-1m",
	} {
		require.Equal(t, text, cli.Short(d))
	}
}
