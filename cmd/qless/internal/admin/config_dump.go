package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/inspect"
)

// A dumpedLimit is a limit with its config.
type dumpedLimit struct {
	Name   string            `json:"name"`
	Config qless.LimitConfig `json:"config"`
}

// A configDump holds the configuration of a namespace. A nil part is unknown.
type configDump struct {
	Settings map[string]string `json:"settings"`
	Paused   []string          `json:"paused"`
	Limits   []dumpedLimit     `json:"limits"`
}

func dumpOf(ctx context.Context, client *qless.Client) (configDump, error) {
	settings, err := client.Config().All(ctx)
	if err != nil {
		return configDump{}, err
	}
	queues, err := client.Queues(ctx)
	if err != nil {
		return configDump{}, err
	}
	limits, err := inspect.New(client).Limits(ctx, inspect.Range{Limit: -1})
	if err != nil {
		return configDump{}, err
	}
	d := configDump{Settings: settings, Paused: []string{}, Limits: []dumpedLimit{}}
	for _, limit := range limits.Items {
		d.Limits = append(d.Limits, dumpedLimit{limit.Name, limit.Config})
	}
	for _, q := range queues {
		if q.Paused {
			d.Paused = append(d.Paused, q.Name)
		}
	}
	slices.Sort(d.Paused)
	return d, nil
}

func (a *app) readDump(path string) (configDump, error) {
	file, err := a.Open(path)
	if err != nil {
		return configDump{}, err
	}
	defer func() { _ = file.Close() }()
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	var d configDump
	if err := decoder.Decode(&d); err != nil {
		return configDump{}, out.Error(fmt.Errorf("%s is not a dump: %w", path, err))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return configDump{}, out.Error(fmt.Errorf("%s has more than one dump", path))
	}
	return d, nil
}

// A configChange is a step from the present to the wanted settings of a namespace.
type configChange struct {
	Action string `json:"action"`
	Name   string `json:"name"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`

	raw   bool              // any name and value of a setting
	limit qless.LimitConfig // to define
}

// The actions of changes.
const (
	actSet    = "set"
	actUnset  = "unset"
	actPause  = "pause"
	actResume = "resume"
	actDefine = "define limit"
	actDelete = "delete limit"
)

// changesTo returns the changes that lead to a dump, in an order that keeps the queues paused in
// the dump from running jobs.
func changesTo(
	ctx context.Context, client *qless.Client, wanted configDump, exact, raw bool,
) ([]configChange, error) {
	there, err := dumpOf(ctx, client)
	if err != nil {
		return nil, err
	}
	defaults, err := defaultSettings(ctx)
	if err != nil {
		return nil, err
	}
	changes := []configChange{}
	for _, queue := range slices.Sorted(slices.Values(wanted.Paused)) {
		counts, err := client.Queue(queue).Counts(ctx)
		if err != nil {
			return nil, err
		}
		if !counts.Paused {
			changes = append(changes, configChange{Action: actPause, Name: queue})
		}
	}
	changes = append(changes, settingChanges(there.Settings, wanted.Settings, defaults, exact, raw)...)
	changes = append(changes, limitChanges(there.Limits, wanted.Limits, exact)...)
	if exact && wanted.Paused != nil {
		for _, queue := range there.Paused {
			if !slices.Contains(wanted.Paused, queue) {
				changes = append(changes, configChange{Action: actResume, Name: queue})
			}
		}
	}
	return changes, nil
}

func settingChanges(there, wanted, defaults map[string]string, exact, raw bool) []configChange {
	var changes []configChange
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if there[name] != wanted[name] {
			changes = append(changes, configChange{
				Action: actSet, Name: name, From: there[name], To: wanted[name], raw: raw,
			})
		}
	}
	if !exact || wanted == nil {
		return changes
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, found := wanted[name]; !found && there[name] != defaults[name] {
			changes = append(changes, configChange{
				Action: actUnset, Name: name, From: there[name], To: defaults[name],
			})
		}
	}
	return changes
}

func limitChanges(there, wanted []dumpedLimit, exact bool) []configChange {
	defined := map[string]qless.LimitConfig{}
	for _, limit := range there {
		defined[limit.Name] = limit.Config
	}
	var changes []configChange
	byName := func(a, b dumpedLimit) int { return cmp.Compare(a.Name, b.Name) }
	for _, limit := range slices.SortedFunc(slices.Values(wanted), byName) {
		old, found := defined[limit.Name]
		if !found || old != limit.Config {
			changes = append(changes, configChange{
				Action: actDefine, Name: limit.Name, From: limitWords(old), To: limitWords(limit.Config),
				limit: limit.Config,
			})
		}
		delete(defined, limit.Name)
	}
	if !exact || wanted == nil {
		return changes
	}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		changes = append(changes, configChange{
			Action: actDelete, Name: name, From: limitWords(defined[name]),
		})
	}
	return changes
}

// make makes the change.
func (c configChange) make(ctx context.Context, client *qless.Client) (err error) {
	switch c.Action {
	case actSet:
		if !c.raw {
			return client.Config().Set(ctx, c.Name, settingValue(c.Name, c.To))
		}
		_, err = client.Do(ctx, "config.set", c.Name, c.To)
	case actUnset:
		err = client.Config().Unset(ctx, c.Name)
	case actPause:
		err = client.Queue(c.Name).Pause(ctx)
	case actResume:
		err = client.Queue(c.Name).Resume(ctx)
	case actDefine:
		err = client.Limit(c.Name).Set(ctx, c.limit)
	case actDelete:
		err = client.Limit(c.Name).Unset(ctx)
	}
	return err
}

// limitWords describes a limit, such as "5 at a time, 100 per 1m0s".
func limitWords(config qless.LimitConfig) string {
	var words []string
	if config.Concurrency > 0 {
		words = append(words, fmt.Sprintf("%d at a time", config.Concurrency))
	}
	if config.Rate > 0 {
		words = append(words, fmt.Sprintf("%d per %s", config.Rate, config.Per))
	}
	return strings.Join(words, ", ")
}
