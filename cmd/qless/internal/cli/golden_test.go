package cli_test

import (
	"strings"
	"testing"
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
		"job_find":        "job find --limit 25",
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
