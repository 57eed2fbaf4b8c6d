package main

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// pageSize is the number of entries read at once.
const pageSize = 100

// A page returns the next entries of a key after skipping some.
type page func(ctx context.Context, skip int64) ([]redis.Z, error)

// list returns the pages of a list from the end, where entries are taken.
func (m *mover) list(key string) page {
	return func(ctx context.Context, skip int64) ([]redis.Z, error) {
		found, err := m.rdb.LRange(ctx, key, -skip-pageSize, -skip-1).Result()
		entries := make([]redis.Z, len(found))
		for i, entry := range found {
			entries[i].Member = entry
		}
		slices.Reverse(entries)
		return entries, err
	}
}

// sortedSet returns the pages of a sorted set.
func (m *mover) sortedSet(key string) page {
	return func(ctx context.Context, skip int64) ([]redis.Z, error) {
		return m.rdb.ZRangeWithScores(ctx, key, skip, skip+pageSize-1).Result()
	}
}

// each calls take with each entry of a key. take reports whether the entry has left the key. each
// begins again until all remaining entries stay. Others may take entries meanwhile.
func (m *mover) each(
	ctx context.Context, next page, take func(entry string, score float64) (bool, error),
) error {
	for again := true; again; {
		again = false
		for stay := int64(0); ; {
			entries, err := next(ctx, stay)
			if err != nil {
				return err
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				taken, err := take(e.Member.(string), e.Score)
				if err != nil {
					return err
				}
				if again = again || taken; !taken {
					stay++
				}
			}
		}
	}
	return nil
}
