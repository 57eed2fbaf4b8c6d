package doctor

// advice tells an operator how to deal with each cause.
var advice = map[Code]string{
	CodeUnknown:          "Compare the name with those of the queues.",
	CodeEmpty:            "Check whether the jobs have failed or are complete.",
	CodePaused:           "Unpause it.",
	CodeMaxConcurrency:   "Raise the limit, or find out why those jobs take so long.",
	CodeMaxRate:          "Wait, or raise the rate.",
	CodeLimit:            "Wait, or raise the limit.",
	CodeWorkersPaused:    "Resume the workers, or start others.",
	CodeNoWorkers:        "Start a worker for the queue.",
	CodeWorkersBusy:      "Start more workers, or find out which jobs take so long.",
	CodeNoHandler:        "Deploy workers that have a handler for it.",
	CodeScheduled:        "Wait, or check when they are due.",
	CodeRecurring:        "Wait, or check when it is due.",
	CodeDepends:          "Look at the jobs that they wait for.",
	CodeFailedDependency: "Retry the failed jobs, or cancel the waiting ones.",
	CodeUntold:           "Notify them, or wait: a Go worker does so every 5 minutes.",
	CodeUnswept:          "Sweep. If that does not help, qless doctor --fix does.",
	CodeOpenBatch:        "Commit the batch, or cancel its callback.",
	CodeGrace:            "Wait for the end of the grace period. Did a worker die?",
	CodeStalled:          "Start another worker: it takes over the jobs.",
	CodeUnhandled:        "Deploy the code, then retry the jobs.",
	CodeNoCompletions:    "Look at how its jobs fail, and read the workers' logs.",
	CodeFlowing:          "Check whether the counts go down.",
}

// Advice tells an operator, in words, how to deal with the cause. It may be empty.
func (c *Cause) Advice() string {
	needsBlocker := c.Code == CodeDepends || c.Code == CodeFailedDependency
	switch {
	case needsBlocker && len(c.Blockers) == 0, c.Code == CodeUnhandled && len(c.Groups) == 0:
		return ""
	case c.Code == CodeLimit && !c.Certain:
		return "Wait a minute."
	case c.Code == CodeLimit && len(c.JIDs) > 0:
		return "Look at a job that holds a slot, or raise the limit."
	}
	return advice[c.Code]
}
