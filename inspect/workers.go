package inspect

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/wire"
)

// A WorkerStatus is a worker in any language.
type WorkerStatus struct {
	Name    string `json:"name"`
	Jobs    int    `json:"jobs"`    // with unexpired locks
	Stalled int    `json:"stalled"` // with expired locks

	// Info is the worker's registration. It is nil for classic workers and clients that pop, which do
	// not register.
	Info *WorkerInfo `json:"info,omitempty"`

	// Gone, in place of Info, is the last registration of a dead [qless.Worker]. The death is known
	// after 70 s, or at lock expiry; after 150 s if the connections stay open.
	Gone *WorkerInfo `json:"gone,omitempty"`
}

// A WorkerInfo is the registration of a [qless.Worker].
type WorkerInfo struct {
	Queues   []string  `json:"queues"`  // names and patterns, as in its config
	Klasses  []string  `json:"klasses"` // klasses and prefixes with a handler
	Slots    int       `json:"slots"`   // the maximum number of jobs to run at once
	Language string    `json:"language"`
	Version  string    `json:"version,omitempty"` // of package qless, if known
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Paused   bool      `json:"paused,omitempty"`
	Stopping bool      `json:"stopping,omitempty"` // waiting for running jobs
	Started  time.Time `json:"started,omitzero"`   // by the server's clock, like Seen
	Seen     time.Time `json:"seen,omitzero"`      // the last registration, about once a minute

	// Unhandled are up to 10 klasses of jobs released within the last minutes, for lack of a handler.
	Unhandled []UnhandledKlass `json:"unhandled,omitempty"`
}

// An UnhandledKlass is a klass without a handler in a worker, and a queue with jobs of the klass.
type UnhandledKlass struct {
	Queue string `json:"queue"`
	Klass string `json:"klass"`
}

// TakesFrom reports whether the worker takes jobs from a queue. A paused or stopping worker takes
// none.
func (i WorkerInfo) TakesFrom(queue string) bool {
	if i.Paused || i.Stopping {
		return false
	}
	return queues.NewPatterns(i.Queues).Find(queue) >= 0
}

// parseWorkerInfo reads a worker's registration. It returns nil if the registration is missing or
// damaged.
func parseWorkerInfo(text string) *WorkerInfo {
	parts := strings.SplitN(text, "|", 3)
	if len(parts) != 3 {
		return nil
	}
	info := &WorkerInfo{}
	if err := json.Unmarshal([]byte(parts[2]), info); err != nil {
		return nil
	}
	info.Seen, info.Started = wire.AsNumber(parts[0]).Time(), wire.AsNumber(parts[1]).Time()
	return info
}

// Workers returns the recently seen workers, latest first. It reads 500 workers at a time. A dead
// worker is listed until max-worker-age has passed. A job taken from a worker is counted until that
// worker takes another job or stops.
func (in *Inspector) Workers(ctx context.Context) ([]WorkerStatus, error) {
	var all []WorkerStatus // latest last; a worker seen in the meantime twice
	known := map[string]bool{}
	for cursor := ""; ; {
		part, next, err := in.workersFrom(ctx, cursor)
		if err != nil {
			return nil, err
		}
		before := len(known)
		for _, w := range part {
			known[w.Name] = true
		}
		all, cursor = append(all, part...), next
		if cursor == "" || len(known) == before {
			break
		}
	}
	workers := make([]WorkerStatus, 0, len(known))
	for _, w := range slices.Backward(all) {
		if known[w.Name] {
			known[w.Name] = false
			workers = append(workers, w)
		}
	}
	return workers, nil
}

// workersFrom returns some of the workers, the latest last, and the next cursor.
func (in *Inspector) workersFrom(
	ctx context.Context, cursor string,
) (workers []WorkerStatus, next string, err error) {
	part, err := do[struct {
		Cursor  wire.Text `json:"cursor"`
		Workers wire.List[struct {
			Name       wire.Text   `json:"name"`
			Jobs       wire.Number `json:"jobs"`
			Stalled    wire.Number `json:"stalled"`
			Registered wire.Text   `json:"registered"`
			Gone       wire.Text   `json:"gone"`
		}] `json:"workers"`
	}](ctx, in.client, "workers", "", "", "", "registered", cursor)
	if err != nil {
		return nil, "", err
	}
	for _, r := range part.Workers {
		workers = append(workers, WorkerStatus{
			Name: string(r.Name), Jobs: r.Jobs.Int(), Stalled: r.Stalled.Int(),
			Info: parseWorkerInfo(string(r.Registered)), Gone: parseWorkerInfo(string(r.Gone)),
		})
	}
	return workers, string(part.Cursor), nil
}

// forgottenAtOnce is the number of workers that a script forgets.
const forgottenAtOnce = 500

// ForgetWorkers removes workers from the list, 500 at a time. The workers keep their locks, and a
// running [qless.Worker] is listed again within a minute. No names are [qless.ErrInvalid].
func (in *Inspector) ForgetWorkers(ctx context.Context, names ...string) error {
	const command = "worker.deregister"
	if err := checkNames(command, "worker name", names); err != nil {
		return err
	}
	for some := range slices.Chunk(names, forgottenAtOnce) {
		args := make([]any, len(some))
		for i, name := range some {
			args[i] = name
		}
		if _, err := in.client.Do(ctx, command, args...); err != nil {
			return err
		}
	}
	return nil
}
