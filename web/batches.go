package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/terms"
	"github.com/qless/qless-go/web/internal/find"
)

// A batchesData holds some of the batches with callbacks in a state.
type batchesData struct {
	State   string     `json:"state"`
	Batches []batchRow `json:"batches"`
	Search  *search    `json:"search"`
}

// A batchRow is the callback of a batch, with the progress of the batch.
type batchRow struct {
	Job   inspect.Row `json:"job"`
	Batch *batch      `json:"batch"`
}

// batchOrders are the columns for sorting the batches of a page.
var batchOrders = orders[batchRow]{
	"klass":   func(b *batchRow) any { return b.Job.Klass },
	"jid":     func(b *batchRow) any { return b.Job.JID },
	"queue":   func(b *batchRow) any { return b.Job.Queue },
	"done":    func(b *batchRow) any { return b.Batch.Done() },
	"failed":  func(b *batchRow) any { return b.Batch.Failed },
	"pending": func(b *batchRow) any { return b.Batch.Pending },
	"since":   func(b *batchRow) any { return b.Job.Since },
}

// A batchState is a state of callbacks, with its name on the page.
type batchState struct{ State, Title string }

// States returns the available states.
func (d *batchesData) States() []batchState {
	return []batchState{
		{"depends", "Waiting for members"}, {"waiting", "Callback waits"},
		{"running", "Callback runs"}, {"failed", "Callback failed"}, {"complete", "Complete"},
	}
}

// batches lists batches. Batches have no index, so it reads a limited number of jobs and sorts the
// batches found.
func (s *site) batches(ctx context.Context, q query) (*view, error) {
	asked := find.Query{Terms: terms.Terms{State: cmp.Or(q.Get("state"), "depends")}, Batch: true}
	if err := asked.Check(false); err != nil {
		return nil, err
	}
	found, total, err := s.search(ctx, &asked, q.Get("next"))
	if err != nil {
		return nil, err
	}
	data := &batchesData{
		State: asked.State, Batches: []batchRow{},
		Search: newSearch(q.Values, found, total, "next", found.Next),
	}
	for _, row := range found.Items {
		status, err := s.readBatch(ctx, row.JID)
		if errors.Is(err, qless.ErrNotFound) {
			continue // canceled meanwhile
		}
		if err != nil {
			return nil, err
		}
		data.Batches = append(data.Batches, batchRow{row, status})
	}
	by := batchOrders.sort(data.Batches, q, "-")
	return &view{Title: "Batches", Data: data, search: data.Search, order: by}, nil
}

// A batch is the progress of a batch.
type batch struct {
	Members int  `json:"members"`
	Pending int  `json:"pending"` // members that the callback waits for
	Failed  int  `json:"failed"`
	IsOpen  bool `json:"open"` // not committed

	stuck int // the number of pending members that have failed
}

// Done returns the number of members that have completed.
func (b *batch) Done() int { return max(0, b.Members-b.Pending-b.Failed+b.stuck) }

// readBatch reads the progress of a batch. It reads the states of only about maxStuck pending
// members.
func (s *site) readBatch(ctx context.Context, jid string) (*batch, error) {
	var b *batch
	for looked, cursor := 0, ""; looked < maxStuck; {
		reply, err := s.Client.Do(ctx, "batch.status", jid, cursor, "stuck")
		if err != nil {
			return nil, err
		}
		var part struct {
			Open    bool              `json:"open"`
			Total   int               `json:"total"`
			Pending int               `json:"pending"`
			Failed  map[string]string `json:"failed"`
			JIDs    []string          `json:"jids"`
			Stuck   int               `json:"stuck"`
			Cursor  string            `json:"cursor"`
		}
		text, _ := reply.(string)
		if err := json.Unmarshal([]byte(text), &part); err != nil {
			return nil, err
		}
		if b == nil {
			b = &batch{part.Total, part.Pending, len(part.Failed), part.Open, 0}
		}
		b.stuck += part.Stuck
		b.Failed += part.Stuck
		looked += len(part.JIDs)
		if cursor = part.Cursor; cursor == "" {
			break
		}
	}
	return b, nil
}

// maxStuck is the number of members after which no more members of a batch are read, which takes
// the server about 2 ms.
const maxStuck = 2000
