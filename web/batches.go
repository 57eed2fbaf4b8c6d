package web

import (
	"cmp"
	"context"
	"errors"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/find"
)

// A batchesData is a part of the batches whose callbacks are in a state.
type batchesData struct {
	State   string     `json:"state"`
	Batches []batchRow `json:"batches"`
	Looked  int        `json:"looked"` // jobs, for this page
	Next    string     `json:"next,omitempty"`
}

// A batchRow is the callback of a batch, and how far the batch is.
type batchRow struct {
	Job   inspect.Row `json:"job"`
	Batch *batch      `json:"batch"`
}

// A batchState is a state of callbacks, as the page calls it.
type batchState struct{ State, Title string }

// States are the states to choose from.
func (d *batchesData) States() []batchState {
	return []batchState{
		{"depends", "Waiting for members"}, {"waiting", "Callback waits"},
		{"running", "Callback runs"}, {"failed", "Callback failed"}, {"complete", "Complete"},
	}
}

// batches lists batches. There is no index of them: it looks at a bounded number of jobs.
func (s *site) batches(ctx context.Context, q query) (*view, error) {
	asked := find.Query{State: cmp.Or(q.Get("state"), "depends"), Batch: true}
	if err := asked.Check(false); err != nil {
		return nil, err
	}
	found, err := s.search(ctx, &asked, q.Get("next"))
	if err != nil {
		return nil, err
	}
	data := &batchesData{
		State: asked.State, Batches: []batchRow{}, Looked: found.Sum(), Next: found.Next,
	}
	for _, row := range found.Items {
		status, err := s.Client.Batch(row.JID).Status(ctx)
		if errors.Is(err, qless.ErrNotFound) {
			continue // it was canceled meanwhile
		}
		if err != nil {
			return nil, err
		}
		data.Batches = append(data.Batches, batchRow{row, &batch{
			status.Total, status.Pending, len(status.Failed), status.Open,
		}})
	}
	return &view{Title: "Batches", Data: data}, nil
}
