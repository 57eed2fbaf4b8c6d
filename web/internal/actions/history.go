package actions

import (
	"slices"
	"sync"

	"github.com/qless/qless-go"
)

// A History holds the last runs of a dashboard.
type History struct {
	// MaxReceipt is the maximum size of a receipt.
	MaxReceipt ReceiptSize

	mu       sync.Mutex
	runs     []*Run
	receipts []*Receipt
	underWay sync.WaitGroup
}

// The maximum numbers of remembered runs, and of long runs under way.
const (
	maxRuns     = 200
	maxLongRuns = 4
)

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{MaxReceipt: ReceiptSize{Jobs: 100_000, Bytes: 64 << 20}}
}

// Start starts a run and returns it, or returns the run already started by the same form. A form
// may be sent again if its run has done nothing.
func (h *History) Start(r *Run) (*Run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	long := 0
	for _, other := range h.runs {
		if r.once != "" && other.once == r.once && !other.hasFailed() {
			return other, nil
		}
		if other.IsLong && !other.hasEnded() {
			long++
		}
	}
	if r.IsLong && long >= maxLongRuns {
		return nil, invalid("%d actions are under way: wait until one has ended, or stop one", long)
	}
	h.runs = append(h.runs, r)
	if over := len(h.runs) - maxRuns; over > 0 {
		h.runs = slices.DeleteFunc(h.runs, func(other *Run) bool {
			isOver := over > 0 && other.hasEnded()
			over--
			return isOver
		})
	}
	h.underWay.Go(r.do)
	return r, nil
}

// Run returns a run of a namespace.
func (h *History) Run(s *Space, id string) (*Run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range h.runs {
		if run.ID == id && run.Space == s {
			return run, nil
		}
	}
	return nil, notFound("there is no such run, or it ended long ago")
}

// Outcome returns the outcome of an ended run, or nil.
func (h *History) Outcome(s *Space, id string) *Outcome {
	run, err := h.Run(s, id)
	if err != nil || !run.hasEnded() {
		return nil
	}
	return run.done
}

// Close stops all runs after their current steps, and waits for them.
func (h *History) Close() {
	h.mu.Lock()
	for _, run := range h.runs {
		run.Stop()
	}
	h.mu.Unlock()
	h.underWay.Wait()
}

func notFound(format string, args ...any) error {
	err := invalid(format, args...).(*qless.Error)
	err.Code = qless.ErrNotFound
	return err
}
