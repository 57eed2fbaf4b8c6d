package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A walk reads the keys of one server once, for the exams of several namespaces.
type walk struct {
	*exam    // of the first namespace; also examines the server
	exams    []*exam
	byPrefix map[string]*exam
	lengths  []int // of the prefixes, longest first
}

func newWalk(exams []*exam) *walk {
	w := &walk{exams[0], exams, map[string]*exam{}, nil}
	for _, e := range exams {
		w.byPrefix[e.Namespace] = e
		w.lengths = append(w.lengths, len(e.Namespace))
	}
	slices.Sort(w.lengths)
	w.lengths = slices.Compact(w.lengths)
	slices.Reverse(w.lengths)
	for _, outer := range exams {
		for _, e := range exams {
			if rest, is := strings.CutPrefix(e.Namespace, outer.Namespace); is && rest != "" {
				outer.hasInner(rest)
			}
		}
	}
	return w
}

// all examines the server, the settings and clocks of each namespace, and all keys.
func (w *walk) all(ctx context.Context) error {
	total, err := w.rdb.DBSize(ctx).Result()
	if err != nil {
		w.skip("the number of keys", err)
	}
	if err := w.server(ctx); err != nil {
		return err
	}
	for _, e := range w.exams {
		e.report.Total = int(total)
		if err := inOrder(ctx, e.settings, e.clocks); err != nil {
			return err
		}
	}
	return w.scan(ctx)
}

// scan examines all keys of the namespaces.
func (w *walk) scan(ctx context.Context) error {
	pattern := redisx.EscapeGlob(w.sharedPrefix()) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := w.rdb.Scan(ctx, cursor, pattern, int64(w.Step)).Result()
		if err != nil {
			return err
		}
		look := func(ctx context.Context) error { return w.lookAt(ctx, keys) }
		if err := inOrder(ctx, w.pace, look, w.progress); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for _, e := range w.exams {
		if err := e.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sharedPrefix returns the longest prefix common to all namespaces.
func (w *walk) sharedPrefix() string {
	shared := w.Namespace
	for _, e := range w.exams {
		for !strings.HasPrefix(e.Namespace, shared) {
			shared = shared[:len(shared)-1]
		}
	}
	return shared
}

// owner returns the exam of a key's namespace, or nil.
func (w *walk) owner(key string) *exam {
	for _, length := range w.lengths {
		if length <= len(key) && w.byPrefix[key[:length]] != nil {
			return w.byPrefix[key[:length]]
		}
	}
	return nil
}

// lookAt examines some keys.
func (w *walk) lookAt(ctx context.Context, keys []string) error {
	for part := range slices.Chunk(keys, w.Step) {
		pipe := w.rdb.Pipeline()
		for _, key := range part {
			pipe.Type(ctx, key)
		}
		types, err := pipe.Exec(ctx)
		if err != nil {
			return err
		}
		if err := w.pace(ctx); err != nil {
			return err
		}
		for i, key := range part {
			e := w.owner(key)
			if e == nil {
				continue
			}
			if err := e.lookAtKey(ctx, key, types[i].(*redis.StatusCmd).Val()); err != nil {
				return err
			}
		}
	}
	return nil
}

// progress reports the progress of the exams.
func (w *walk) progress(context.Context) error {
	if w.Progress == nil {
		return nil
	}
	p := Progress{Total: w.report.Total}
	for _, e := range w.exams {
		p.Keys += e.report.Keys
		p.Jobs += e.report.Jobs
		p.Findings += len(e.report.Findings)
	}
	p.Total = max(p.Total, p.Keys)
	return guard.Call(func() { w.Progress(p) })
}
