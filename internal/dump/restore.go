package dump

import (
	"context"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/keys"
)

// A Comparison describes how the keys of a dump and a namespace differ. Keys have no prefix.
type Comparison struct {
	Same      int      // keys of the dump that exist and are equal
	Missing   int      // keys that do not exist
	Differing []string // keys with other values
	Extra     []string // keys not in the dump

	// Resumed reports that only the paused queues are missing: they were resumed after a restore.
	Resumed bool
}

// Compare compares a dump with a namespace. Keys that have expired since do not count. Neither do
// the times when workers were last seen.
func (n *Namespace) Compare(ctx context.Context, from io.Reader) (Comparison, error) {
	var c Comparison
	names, err := n.names(ctx)
	if err != nil {
		return c, err
	}
	extra := map[string]bool{}
	for _, name := range names {
		extra[name] = name != seen
	}
	now, err := n.rdb.Time(ctx).Result()
	if err != nil {
		return c, err
	}
	err = each(from, func(some []*entry) error {
		asked := make([]string, len(some))
		for i, e := range some {
			asked[i] = string(e.Key)
			delete(extra, asked[i])
		}
		i := -1
		for e, err := range n.read(ctx, asked) {
			if err != nil {
				return err
			}
			i++
			switch {
			case e.Kind == "none" && some[i].isOver(now):
			case e.Kind == "none":
				c.Missing++
				c.Resumed = c.Resumed || asked[i] == first
			case asked[i] == seen || e.equal(some[i]):
				c.Same++
			default:
				c.Differing = append(c.Differing, asked[i])
			}
		}
		return nil
	})
	for _, name := range names {
		if extra[name] {
			c.Extra = append(c.Extra, name)
		}
	}
	c.Resumed = c.Resumed && c.Missing == 1 && c.Same > 0
	return c, err
}

// seen is the key with the times when workers were last seen.
const seen = "workers"

func (e *entry) equal(other *entry) bool {
	return e.Kind == other.Kind && (e.Expires == 0) == (other.Expires == 0) &&
		slices.Equal(e.Values, other.Values)
}

// isOver reports whether a key has expired by now.
func (e *entry) isOver(now time.Time) bool {
	return e.Expires != 0 && e.Expires <= now.UnixMilli()
}

// Restore writes the keys of a dump that do not exist. Each key is written as a whole or not at
// all, so an interrupted Restore can be repeated. Existing keys stay unchanged.
func (n *Namespace) Restore(ctx context.Context, from io.Reader) error {
	return each(from, func(some []*entry) error {
		there := make([]*redis.IntCmd, len(some))
		_, err := n.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, e := range some {
				there[i] = pipe.Exists(ctx, n.prefix+string(e.Key))
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, err = n.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, e := range some {
				if there[i].Val() == 1 {
					continue
				}
				if err := n.restore(ctx, pipe, e); err != nil {
					return err
				}
			}
			return nil
		})
		n.step()
		return err
	})
}

// restore writes a key, ending with commands of a transaction.
func (n *Namespace) restore(ctx context.Context, end redis.Pipeliner, e *entry) error {
	key := n.prefix + string(e.Key)
	if e.isLarge() {
		temporary := n.prefix + unfinished
		if err := n.rdb.Unlink(ctx, temporary).Err(); err != nil {
			return err
		}
		for values := range e.parts() {
			if err := e.add(ctx, n.rdb, temporary, values); err != nil {
				return err
			}
			n.step()
		}
		end.RenameNX(ctx, temporary, key)
	} else if err := e.add(ctx, end, key, e.Values); err != nil {
		return err
	}
	if e.Expires != 0 {
		end.PExpireAt(ctx, key, time.UnixMilli(e.Expires))
	}
	return nil
}

// mostValues is the number of values to write at once.
const mostValues = 1000

// size returns the bytes of the values.
func (e *entry) size() int {
	bytes := 0
	for _, value := range e.Values {
		bytes += len(value)
	}
	return bytes
}

// isLarge reports whether a key is written in parts.
func (e *entry) isLarge() bool {
	return e.Kind != keys.String && (len(e.Values) > mostValues || e.size() > enough)
}

// parts divides the values.
func (e *entry) parts() iter.Seq[[]text] {
	stride := 1
	if e.Kind == keys.Hash || e.Kind == keys.ZSet {
		stride = 2
	}
	return func(yield func([]text) bool) {
		first, bytes := 0, 0
		for i, value := range e.Values {
			bytes += len(value)
			next := i + 1
			isFull := next%stride == 0 && (next-first >= mostValues || bytes >= enough)
			if !isFull && next < len(e.Values) {
				continue
			}
			if !yield(e.Values[first:next]) {
				return
			}
			first, bytes = next, 0
		}
	}
}

// add adds values to a key of the entry's type.
func (e *entry) add(ctx context.Context, to redis.Cmdable, key string, values []text) error {
	args := make([]any, len(values))
	for i, value := range values {
		args[i] = string(value)
	}
	switch e.Kind {
	case "string":
		return to.Set(ctx, key, args[0], 0).Err()
	case "hash":
		return to.HSet(ctx, key, args...).Err()
	case "list":
		return to.RPush(ctx, key, args...).Err()
	case "set":
		return to.SAdd(ctx, key, args...).Err()
	}
	members := make([]redis.Z, 0, len(values)/2)
	for i := 0; i < len(values); i += 2 {
		score, err := strconv.ParseFloat(string(values[i+1]), 64)
		if err != nil {
			return err
		}
		members = append(members, redis.Z{Score: score, Member: args[i]})
	}
	return to.ZAdd(ctx, key, members...).Err()
}
