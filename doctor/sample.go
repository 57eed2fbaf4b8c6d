package doctor

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A sample is what some keys of the database are like.
type sample struct {
	keys    int // of whatever namespace
	walked  int // whose members an exam walks through, which takes a step for each
	figures int // members that are statistics or rates
}

// steps returns how many steps an exam takes for the members of keys, if all are like the sample.
// The members of other keys are jobs, which count as keys.
func (s sample) steps(keys, step int) int {
	if s.keys == 0 {
		return 0
	}
	found := float64(s.walked) + float64(s.figures)/float64(step) + float64(s.figures)/itemsAtOnce
	return int(found * float64(keys) / float64(s.keys))
}

// maxSampleScans is how often a sample scans: a table that was large has empty places.
const maxSampleScans = 5

// sample looks at Step keys, or at all if there are fewer. SCAN returns them in the order of their
// hashes, which is as good as chance.
func (e *exam) sample() (sample, error) {
	var seen sample
	var figures []string
	cursor := uint64(0)
	for range maxSampleScans {
		keys, next, err := e.rdb.Scan(e.ctx, cursor, "", int64(e.Step)).Result()
		if err != nil {
			return seen, err
		}
		seen.keys += len(keys)
		for _, key := range keys {
			name, is := strings.CutPrefix(key, e.Namespace)
			if c := classOf(name); is && c.check != "" {
				seen.walked++
				if c.check == checkFigures && c.kind == typeHash {
					figures = append(figures, key)
				}
			}
		}
		if cursor = next; cursor == 0 || seen.keys >= e.Step {
			break
		}
	}
	var err error
	seen.figures, err = e.fields(figures)
	return seen, err
}

// fields returns how many fields hashes have together, as far as the user may ask.
func (e *exam) fields(hashes []string) (total int, err error) {
	pipe := e.rdb.Pipeline()
	lengths := make([]*redis.IntCmd, len(hashes))
	for i, key := range hashes {
		lengths[i] = pipe.HLen(e.ctx, key)
	}
	if _, err := pipe.Exec(e.ctx); redisx.IsUnanswered(err) {
		return 0, err
	}
	for _, length := range lengths {
		total += int(length.Val())
	}
	return total, nil
}
