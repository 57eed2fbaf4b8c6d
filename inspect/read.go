package inspect

import (
	"context"
	"iter"
	"math"
	"strconv"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

// A Range selects a part of a list by index. The zero value selects the first 25 items.
type Range struct {
	Offset int
	Limit  int // defaults to 25; -1 means all, at most 100,000
}

// bounds returns the offset and the limit, neither of them negative.
func (r Range) bounds(command string) (offset, limit int, err error) {
	if r.Offset < 0 || r.Offset > math.MaxInt32 {
		return 0, 0, invalid(command, "the offset %d is not from 0 to %d", r.Offset, math.MaxInt32)
	}
	if r.Limit < -1 || r.Limit > maxLimit {
		return 0, 0, invalid(command, "the limit %d is not from -1 to %d", r.Limit, maxLimit)
	}
	switch r.Limit {
	case 0:
		return r.Offset, defaultLimit, nil
	case -1:
		return r.Offset, maxLimit, nil
	}
	return r.Offset, r.Limit, nil
}

const (
	defaultLimit = 25
	maxLimit     = 100_000
)

// A Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"` // not nil unless the call failed
	Total int `json:"total"` // the length of the list
}

// pageOf returns a part of a list that was read as a whole.
func pageOf[T any](all []T, offset, limit int) Page[T] {
	first := min(offset, len(all))
	part := all[first:min(first+limit, len(all))]
	return Page[T]{Items: append([]T{}, part...), Total: len(all)}
}

// A Cursor is the position of a job in a list, as text. The zero value is the beginning.
type Cursor string

// A Found is the result of [Selection.Find].
type Found struct {
	Items    []Row  `json:"items"`          // not nil unless the call failed
	Examined int    `json:"examined"`       // the number of jobs examined
	Large    int    `json:"large,omitzero"` // jobs with data too large to search
	Next     Cursor `json:"next,omitempty"` // where the next call continues; empty at the end
}

// The maximum number of jobs in one call, smaller for calls that read or return data.
const (
	shownAtOnce          = 500
	shownWithDataAtOnce  = 50
	foundWithDataAtOnce  = 10
	listedAtOnce         = 5000
	lookedAtOnce         = 1000
	lookedWithDataAtOnce = 100
	readAtOnce           = 150
)

// A part is the reply of a search.
type part[T any] struct {
	Looked wire.Number  `json:"looked"`
	Large  wire.Number  `json:"large"`
	Cursor wire.Text    `json:"cursor"`
	Items  wire.List[T] `json:"items"`
}

// search looks for up to limit jobs from a cursor on. shown is "jid" to return only jids, or the
// number of bytes of data to return.
func search[T any](
	ctx context.Context, s Selection, after Cursor, limit int, shown string,
) (part[T], Cursor, error) {
	count := lookedAtOnce
	if s.searchesData() {
		count = lookedWithDataAtOnce
	}
	name, cursor, from := s.name, string(after), 0
	if s.list == jidsList {
		var err error
		if from, err = s.place(after); err != nil {
			return part[T]{}, "", err
		}
		name, cursor = jidsJSON(s.jids[from:min(from+count, len(s.jids))]), ""
	}
	args := append([]any{string(s.list), name, cursor, count, limit, shown}, s.filterArgs()...)
	found, err := do[part[T]](ctx, s.client, "find", args...)
	if s.list != jidsList {
		return found, Cursor(found.Cursor), err
	}
	if from += found.Looked.Int(); from < len(s.jids) {
		return found, Cursor(strconv.Itoa(from)), err
	}
	return found, "", err
}

// place returns the index of the jid at a cursor.
func (s Selection) place(after Cursor) (int, error) {
	if after == "" {
		return 0, nil
	}
	i, err := strconv.Atoi(string(after))
	if err != nil || i < 0 || i >= len(s.jids) {
		return 0, invalid("find", "the cursor %q is not a place in the list", string(after))
	}
	return i, nil
}

// Find examines up to 1000 jobs from a cursor on, or 100 with Filter.Data, and returns the matching
// rows. A call may return no rows, and yet a next cursor. Find is meant for the pages of a search;
// [Selection.Each] needs no cursor.
//
// A cursor is the position of a job in the list, so no job is missed when others come or go. If
// older jobs leave a failure group in the meantime, as many jobs may be found twice.
func (s Selection) Find(ctx context.Context, after Cursor) (Found, error) {
	if err := s.check(); err != nil {
		return Found{}, err
	}
	limit := shownAtOnce
	if s.data > 0 {
		limit = foundWithDataAtOnce
	}
	found, next, err := search[rowReply](ctx, s, after, s.rest(0, limit), strconv.Itoa(s.data))
	if err != nil {
		return Found{}, err
	}
	return Found{
		Items: s.rows(found.Items), Examined: found.Looked.Int(), Large: found.Large.Int(), Next: next,
	}, nil
}

// steps iterates over the results of several searches, yielding each job once, even if a loop has
// moved it to the end of the list. jidOf returns a result's jid.
func steps[T any](
	ctx context.Context, s Selection, limit int, shown string, jidOf func(T) string,
) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		if err := s.check(); err != nil {
			yield(nil, err)
			return
		}
		seen := map[string]bool{}
		for after := Cursor(""); ; {
			found, next, err := search[T](ctx, s, after, s.rest(len(seen), limit), shown)
			if err != nil {
				yield(nil, err)
				return
			}
			fresh := found.Items[:0]
			for _, item := range found.Items {
				if jid := jidOf(item); !seen[jid] {
					seen[jid], fresh = true, append(fresh, item)
				}
			}
			isOver := next == "" || s.atMost > 0 && len(seen) >= s.atMost
			if len(fresh) > 0 && !yield(fresh, nil) || isOver {
				return
			}
			after = next
		}
	}
}

// jidSteps iterates over the jids of the selection.
func (s Selection) jidSteps(ctx context.Context, limit int) iter.Seq2[[]wire.Raw, error] {
	return steps(ctx, s, limit, "jid", func(jid wire.Raw) string { return string(jid) })
}

// Each iterates over the jobs, reading 500 at a time. It yields each job once, and misses none when
// others come or go. The loop may change the job, and may even remove it from the selection. An
// error is the last element.
func (s Selection) Each(ctx context.Context) iter.Seq2[Row, error] {
	limit := shownAtOnce
	if s.data > 0 {
		limit = foundWithDataAtOnce
	}
	jidOf := func(r rowReply) string { return string(r.JID) }
	return func(yield func(Row, error) bool) {
		for found, err := range steps(ctx, s, limit, strconv.Itoa(s.data), jidOf) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, row := range s.rows(found) {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// Jobs iterates over the existing jobs like [Selection.Each], with all their fields, reading 150 at
// a time.
func (s Selection) Jobs(ctx context.Context) iter.Seq2[*qless.Job, error] {
	return func(yield func(*qless.Job, error) bool) {
		for jids, err := range s.jidSteps(ctx, readAtOnce) {
			var jobs []*qless.Job
			if err == nil {
				jobs, err = s.client.Jobs(ctx, wire.Strings(jids)...)
			}
			for _, job := range jobs {
				if !yield(job, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Count returns the number of jobs. With a filter, all jobs are examined, in steps.
func (s Selection) Count(ctx context.Context) (int, error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	if s.isSearched() {
		count := 0
		for jids, err := range s.jidSteps(ctx, 0) {
			if err != nil {
				return 0, err
			}
			count += len(jids)
		}
		return count, nil
	}
	if s.list == jidsList {
		return s.cut(len(s.jids)), nil
	}
	page, err := do[listReply[wire.Raw]](ctx, s.client, "list", string(s.list), s.name, 0, 0, "jid")
	return s.cut(page.Total.Int()), err
}

// A listReply is the reply of the command list.
type listReply[T any] struct {
	Total wire.Number  `json:"total"`
	Items wire.List[T] `json:"items"`
}

// List returns a part of the list by index. A selection with a filter has no indices: the error is
// [qless.ErrInvalid]. List is meant for pages: a range of more than 500 jobs, or 50 with data, is
// read in steps, and jobs may be missed or listed twice between steps. [Selection.Each] has no such
// gaps.
func (s Selection) List(ctx context.Context, r Range) (Page[Row], error) {
	offset, limit, err := s.bounds(r)
	if err != nil {
		return Page[Row]{}, err
	}
	if s.list == jidsList || s.list == workerList {
		page, err := s.JIDs(ctx, r)
		rows := Page[Row]{Items: []Row{}, Total: page.Total}
		if err != nil || len(page.Items) == 0 {
			return rows, err
		}
		named := s.bare(page.Items).WithData(s.data)
		for row, err := range named.Each(ctx) {
			if err != nil {
				return Page[Row]{}, err
			}
			rows.Items = append(rows.Items, row)
		}
		return rows, nil
	}
	step := shownAtOnce
	if s.data > 0 {
		step = shownWithDataAtOnce
	}
	found, err := listed[rowReply](ctx, s, offset, limit, step, strconv.Itoa(s.data))
	if err != nil {
		return Page[Row]{}, err
	}
	return Page[Row]{Items: s.rows(found.Items), Total: found.Total}, nil
}

// JIDs returns the jids of a part of the list, like [Selection.List], at a lower cost.
func (s Selection) JIDs(ctx context.Context, r Range) (Page[string], error) {
	offset, limit, err := s.bounds(r)
	if err != nil {
		return Page[string]{}, err
	}
	switch s.list {
	case jidsList:
		return pageOf(s.jids[:s.cut(len(s.jids))], offset, limit), nil
	case workerList:
		var all []string
		for jids, err := range s.jidSteps(ctx, 0) {
			if err != nil {
				return Page[string]{}, err
			}
			all = append(all, wire.Strings(jids)...)
		}
		return pageOf(all, offset, limit), nil
	}
	found, err := listed[wire.Raw](ctx, s, offset, limit, listedAtOnce, "jid")
	if err != nil {
		return Page[string]{}, err
	}
	jids := append([]string{}, wire.Strings(found.Items)...)
	return Page[string]{Items: jids, Total: found.Total}, nil
}

// bounds checks a range of the selection.
func (s Selection) bounds(r Range) (offset, limit int, err error) {
	if err := s.check(); err != nil {
		return 0, 0, err
	}
	if len(s.filters) > 0 {
		return 0, 0, invalid("list", "a selection with a filter has no numbers: use Each or Find")
	}
	return r.bounds("list")
}

// listed reads a part of the list, in steps.
func listed[T any](
	ctx context.Context, s Selection, offset, limit, step int, shown string,
) (Page[T], error) {
	page := Page[T]{}
	for {
		n := min(s.rest(offset+len(page.Items), limit-len(page.Items)), step)
		reply, err := do[listReply[T]](ctx, s.client, "list", string(s.list), s.name,
			offset+len(page.Items), max(n, 0), shown)
		if err != nil {
			return page, err
		}
		page.Total = s.cut(reply.Total.Int())
		page.Items = append(page.Items, reply.Items...)
		if len(reply.Items) == 0 || len(page.Items) == limit || offset+len(page.Items) >= page.Total {
			return page, nil
		}
	}
}
