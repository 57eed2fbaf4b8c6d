package doctor

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
)

// A sample describes some keys of the database.
type sample struct {
	keys    int // of any namespace
	walked  int // keys whose members an exam reads, in a step for each
	figures int // fields of statistics or rates
}

// steps returns the number of steps that an exam takes for the members of keys, if all keys are
// like the sample. The members of other keys are jobs, which count as keys.
func (s sample) steps(keys, step int) int {
	if s.keys == 0 {
		return 0
	}
	found := float64(s.walked) + float64(s.figures)/float64(step) + float64(s.figures)/itemsAtOnce
	return int(found * float64(keys) / float64(s.keys))
}

// maxSampleScans is the maximum number of scans for a sample: a table that has shrunk has empty
// slots.
const maxSampleScans = 5

// sample reads up to Step keys. SCAN returns them in the order of their hashes, which is as good as
// random.
func (e *exam) sample(ctx context.Context) (sample, error) {
	var seen sample
	var figures []string
	cursor := uint64(0)
	for range maxSampleScans {
		found, next, err := e.rdb.Scan(ctx, cursor, "", int64(e.Step)).Result()
		if err != nil {
			return seen, err
		}
		seen.keys += len(found)
		for _, key := range found {
			name, is := strings.CutPrefix(key, e.Namespace)
			if c := classOf(name, ""); is && c.members != "" {
				seen.walked++
				if c.members == checkFigures && c.Type == keys.Hash {
					figures = append(figures, key)
				}
			}
		}
		if cursor = next; cursor == 0 || seen.keys >= e.Step {
			break
		}
	}
	var err error
	seen.figures, err = e.fields(ctx, figures)
	return seen, err
}

// fields returns the total number of fields of the hashes that the user may read.
func (e *exam) fields(ctx context.Context, hashes []string) (total int, err error) {
	pipe := e.rdb.Pipeline()
	lengths := make([]*redis.IntCmd, len(hashes))
	for i, key := range hashes {
		lengths[i] = pipe.HLen(ctx, key)
	}
	if _, err := pipe.Exec(ctx); redisx.IsUnanswered(err) {
		return 0, err
	}
	for _, length := range lengths {
		total += int(length.Val())
	}
	return total, nil
}
