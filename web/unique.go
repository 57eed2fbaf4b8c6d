package web

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/web/internal/find"
)

// A uniqueData has the holder of a unique key, or some claimed keys.
type uniqueData struct {
	Key     string     `json:"key,omitempty"`
	Keys    []claimRow `json:"keys"`
	Search  *search    `json:"search,omitempty"` // of the keys of the database
	NoRedis bool       `json:"no_redis,omitempty"`
}

// A claimRow is a unique key with its holder.
type claimRow struct {
	Key   string      `json:"key"`
	JID   string      `json:"jid"`
	Klass string      `json:"klass,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state,omitempty"`
	Until time.Time   `json:"until,omitzero"` // the expiry of a claim independent of the job
}

// scanStep is the number of database keys read by a step of a scan.
const scanStep = 500

// unique shows the holder of a unique key, or lists some keys.
func (s *site) unique(ctx context.Context, q query) (*view, error) {
	data := &uniqueData{Key: q.Get("key"), Keys: []claimRow{}, NoRedis: s.Redis == nil}
	var err error
	switch {
	case data.Key != "":
		err = s.readHolder(ctx, data)
	case s.Redis != nil:
		err = s.scanClaims(ctx, q, data)
	}
	if err == nil {
		err = s.addHolders(ctx, data.Keys)
	}
	return &view{Title: "Unique keys", Data: data, isStill: true, search: data.Search}, err
}

// readHolder reads the holder of the key: JSON, or text as the only part.
func (s *site) readHolder(ctx context.Context, data *uniqueData) error {
	key := data.Key
	if !strings.HasPrefix(key, "[") || !json.Valid([]byte(key)) {
		quoted, _ := json.Marshal([]string{key})
		key = string(quoted)
	}
	reply, err := s.Client.Do(ctx, "holder", key)
	if jid, isHeld := reply.(string); isHeld {
		data.Keys = append(data.Keys, claimRow{Key: key, JID: jid})
	}
	return err
}

// scanClaims looks for keys from a cursor until a page is full or the time of a search is over.
func (s *site) scanClaims(ctx context.Context, q query, data *uniqueData) error {
	prefix := s.Client.Namespace() + "x:unique:"
	server, err := redisx.ServerOf(ctx, s.Redis, prefix)
	if err != nil {
		return err
	}
	total, err := server.DBSize(ctx).Result()
	if err != nil {
		return err
	}
	now := &search{Total: int(total), What: "key", param: "after"}
	cursor, _ := strconv.ParseUint(q.Get("after"), 10, 64)
	end := time.Now().Add(find.MaxTime)
	keys, cursor, err := scan(ctx, server, literal(prefix)+"*", cursor, func(found int) bool {
		now.Examined += scanStep
		return found < pageSize && time.Now().Before(end)
	})
	if err != nil {
		return err
	}
	if cursor != 0 {
		now.Next = strconv.FormatUint(cursor, 10)
	}
	now.hasFound = len(keys) > 0
	data.Search = now.after(q.Values)
	for _, key := range keys {
		claim, err := server.Get(ctx, key).Result()
		if end, jid, isClaim := strings.Cut(claim, " "); err == nil && isClaim {
			row := claimRow{Key: strings.TrimPrefix(key, prefix), JID: jid}
			if seconds, _ := strconv.ParseFloat(end, 64); seconds > 0 {
				row.Until = time.UnixMilli(int64(1000 * seconds))
			}
			data.Keys = append(data.Keys, row)
		}
	}
	return nil
}

// scan returns the keys that match a pattern, step by step from a cursor, while more are wanted.
func scan(
	ctx context.Context, server redis.Cmdable, pattern string, cursor uint64,
	isWanted func(found int) bool,
) (keys []string, next uint64, err error) {
	for {
		var found []string
		found, cursor, err = server.Scan(ctx, cursor, pattern, scanStep).Result()
		keys = append(keys, found...)
		if err != nil || !isWanted(len(keys)) || cursor == 0 {
			return keys, cursor, err
		}
	}
}

// literal returns a pattern matching only text.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}

// addHolders adds the holders of the keys.
func (s *site) addHolders(ctx context.Context, keys []claimRow) error {
	var jids []string
	for _, one := range keys {
		jids = append(jids, one.JID)
	}
	jobs, err := s.Client.Jobs(ctx, jids...)
	for _, job := range jobs {
		for i := range keys {
			if keys[i].JID == job.JID {
				keys[i].Klass, keys[i].Queue, keys[i].State = job.Klass, job.Queue, job.State
			}
		}
	}
	return err
}
