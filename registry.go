package qless

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A WorkerInfo is what a running worker says of itself: see [Client.Workers].
type WorkerInfo struct {
	// Queues are the names and patterns of the queues that it takes jobs from, as in
	// [WorkerConfig].
	Queues []string `json:"queues"`

	// Klasses are the klasses and patterns that it has handlers for.
	Klasses []string `json:"klasses"`

	// Slots is how many jobs it runs at once.
	Slots int `json:"slots"`

	// Language is what it is written in, "go" for a [Worker].
	Language string `json:"language"`

	// Version is the version of this package, or empty if the program does not know it.
	Version string `json:"version,omitempty"`

	// Host and PID say where it runs.
	Host string `json:"host"`
	PID  int    `json:"pid"`

	// Paused says that it takes no jobs until [Worker.Resume].
	Paused bool `json:"paused,omitempty"`

	// Stopping says that it takes no more jobs, and waits for those that run.
	Stopping bool `json:"stopping,omitempty"`

	// Started is when it was started, and Seen when it last said that it runs, by the server's
	// clock.
	Started time.Time `json:"started,omitzero"`
	Seen    time.Time `json:"seen,omitzero"`
}

// TakesFrom reports whether the worker takes jobs from a queue, by its names and patterns. One that
// is paused or stopping takes from none.
func (i WorkerInfo) TakesFrom(queue string) bool {
	if i.Paused || i.Stopping {
		return false
	}
	return newQueuePatterns(i.Queues).find(queue) >= 0
}

// parseWorkerInfo reads what the registry has of a worker. It returns nil if that is nothing, or
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
