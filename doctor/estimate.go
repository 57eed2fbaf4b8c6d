package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// An Estimate predicts the time of an exam.
type Estimate struct {
	Keys  int           `json:"keys"` // of the database, in any namespace
	Steps int           `json:"steps"`
	Took  time.Duration `json:"took"` // in JSON, text such as "1m30s"
}

// MarshalJSON writes Took as text.
func (e Estimate) MarshalJSON() ([]byte, error) { return units.Marshal(e) }

// UnmarshalJSON reads the output of MarshalJSON.
func (e *Estimate) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, e) }

// EstimateExam estimates how long [Examine] will take from the number of keys in the database, a
// sample of keys, and the round-trip time. The estimate is right within a factor of about three. It
// costs about ten commands, and one per sampled key with statistics or rates, at most 2 * Step.
func EstimateExam(
	ctx context.Context, rdb redis.UniversalClient, options Options,
) (Estimate, error) {
	e, err := newExam(ctx, rdb, options)
	if err != nil {
		return Estimate{}, err
	}
	total, err := e.rdb.DBSize(ctx).Result()
	if err != nil {
		return Estimate{}, coded(err)
	}
	const pings = 4 // with TIME, because a server that can't save its data refuses PING
	began := time.Now()
	for range pings {
		if err := e.rdb.Time(ctx).Err(); err != nil {
			return Estimate{}, coded(err)
		}
	}
	trip := time.Since(began) / pings
	seen, err := e.sample(ctx)
	if err != nil {
		return Estimate{}, coded(err)
	}
	// Two steps for each Step of keys, and one per 100 items: a key has about one item.
	steps := 2*(int(total)/e.Step+1) + int(total)/itemsAtOnce + seen.steps(int(total), e.Step) + 10
	perStep := trip + max(e.Pause, 0) + stepTime
	return Estimate{Keys: int(total), Steps: steps, Took: time.Duration(steps) * perStep}, nil
}

// stepTime is roughly the server's time for a step.
const stepTime = 500 * time.Microsecond

// A sample describes some keys of the database.
type sample struct {
	keys    int // in any namespace
	walked  int // keys with members that an exam reads, a step each
	figures int // fields of statistics or rates
}

// steps returns the number of steps needed for the members of keys, if the sample is typical. The
// members of other keys are jobs, and count as keys.
func (s sample) steps(keys, step int) int {
	if s.keys == 0 {
		return 0
	}
	found := float64(s.walked) + float64(s.figures)/float64(step) + float64(s.figures)/itemsAtOnce
	return int(found * float64(keys) / float64(s.keys))
}

// maxSampleScans is the maximum number of scans for a sample: a shrunken table has empty slots.
const maxSampleScans = 5

// sample reads up to Step keys. SCAN returns keys in the order of their hashes, as good as random.
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

// fields returns the total number of fields in the hashes that the user may read.
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
