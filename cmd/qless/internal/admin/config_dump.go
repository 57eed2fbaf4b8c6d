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

// A configChange is a step from the present settings of a namespace to the wanted ones.
type configChange struct {
	Action string `json:"action"`
	Name   string `json:"name"`
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`

	make func(ctx context.Context, client *qless.Client) error
}

// changesTo returns the changes that lead to a dump, in an order that runs no jobs of queues that
// the dump pauses.
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
			changes = append(changes, pausing(queue))
		}
	}
	changes = append(changes, settingChanges(there.Settings, wanted.Settings, defaults, exact, raw)...)
	changes = append(changes, limitChanges(there.Limits, wanted.Limits, exact)...)
	if exact && wanted.Paused != nil {
		for _, queue := range there.Paused {
			if !slices.Contains(wanted.Paused, queue) {
				changes = append(changes, resuming(queue))
			}
		}
	}
	return changes, nil
}

func settingChanges(there, wanted, defaults map[string]string, exact, raw bool) []configChange {
	var changes []configChange
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if there[name] != wanted[name] {
			changes = append(changes, setting(name, there[name], wanted[name], raw))
		}
	}
	if !exact || wanted == nil {
		return changes
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if _, found := wanted[name]; !found && there[name] != defaults[name] {
			changes = append(changes, unsetting(name, there[name], defaults[name]))
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
			changes = append(changes, defining(limit, limitWords(old)))
		}
		delete(defined, limit.Name)
	}
	if !exact || wanted == nil {
		return changes
	}
	for _, name := range slices.Sorted(maps.Keys(defined)) {
		changes = append(changes, deleting(name, limitWords(defined[name])))
	}
	return changes
}

func setting(name, from, to string, raw bool) configChange {
	set := func(ctx context.Context, client *qless.Client) error {
		if raw {
			_, err := client.Do(ctx, "config.set", name, to)
			return err
		}
		return client.Config().Set(ctx, name, settingValue(name, to))
	}
	return configChange{"set", name, from, to, set}
}

func unsetting(name, from, to string) configChange {
	unset := func(ctx context.Context, client *qless.Client) error {
		return client.Config().Unset(ctx, name)
	}
	return configChange{"unset", name, from, to, unset}
}

func pausing(queue string) configChange {
	pause := func(ctx context.Context, client *qless.Client) error {
		return client.Queue(queue).Pause(ctx)
	}
	return configChange{"pause", queue, "", "", pause}
}

func resuming(queue string) configChange {
	resume := func(ctx context.Context, client *qless.Client) error {
		return client.Queue(queue).Resume(ctx)
	}
	return configChange{"resume", queue, "", "", resume}
}

func defining(limit dumpedLimit, from string) configChange {
	to := limitWords(limit.Config)
	return configChange{"define limit", limit.Name, from, to,
		func(ctx context.Context, client *qless.Client) error {
			return client.Limit(limit.Name).Set(ctx, limit.Config)
		}}
}

func deleting(limit, from string) configChange {
	return configChange{"delete limit", limit, from, "",
		func(ctx context.Context, client *qless.Client) error {
			return client.Limit(limit).Unset(ctx)
		}}
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
