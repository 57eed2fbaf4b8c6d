package web

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web/internal/words"
)

// A settingsData holds the settings of a namespace.
type settingsData struct {
	Known  []setting `json:"known"`
	Queues []setting `json:"queues"` // those of queues
	Others []setting `json:"others"` // unknown to this package
}

// A setting is a setting that is set or known.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`             // empty if unset without a default
	Default string `json:"default,omitempty"` // empty if it has none
	Meaning string `json:"meaning,omitempty"`
	Unit    string `json:"unit,omitempty"`
	Queue   string `json:"queue,omitempty"`
}

// IsDefault reports whether the setting has its default.
func (s setting) IsDefault() bool { return s.Value == s.Default }

// Spoken returns a value with its unit: "7d", "100 entries".
func (s setting) Spoken(value string) string {
	n, err := strconv.Atoi(value)
	switch {
	case value == "":
		return "not set"
	case err == nil && s.Unit == "s" && n > 0:
		return words.Took(time.Duration(n) * time.Second)
	}
	return strings.TrimSpace(value + " " + s.Unit)
}

// knownSettings are the settings that apply to all queues.
var knownSettings = []setting{
	{"application", "", "qless", "A name for people to read", "", ""},
	{qless.ConfigHeartbeat, "", "60", "How long a lock lasts unless its worker renews it", "s", ""},
	{qless.ConfigGracePeriod, "", "10",
		"How long a worker may still report after its lock has ended", "s", ""},
	{qless.ConfigMaxWorkerAge, "", "86400", "How long a silent worker is listed", "s", ""},
	{qless.ConfigBackoffInitialDelay, "", "0",
		"How long a job waits after its worker has lost it, before the factor", "s", ""},
	{qless.ConfigBackoffFactor, "", "3", "The factor of that delay for each further loss", "", ""},
	{qless.ConfigJobsHistory, "", "604800", "How long completed jobs are kept", "s", ""},
	{qless.ConfigJobsHistoryCount, "", "50000", "The number of completed jobs kept", "jobs", ""},
	{qless.ConfigJobsFailedHistory, "", "",
		"How long failed jobs are kept: forever if it is not set", "s", ""},
	{qless.ConfigJobsFailedHistoryCount, "", "",
		"The number of failed jobs kept in each failure group: all if it is not set", "jobs", ""},
	{qless.ConfigMaxJobHistory, "", "100", "The entries kept of a job's history: 0 for all",
		"entries", ""},
	{qless.ConfigStatsHistory, "", "30", "How long statistics are kept", "days", ""},
	{qless.ConfigHistogramHistory, "", "7", "How long histograms are kept", "days", ""},
	{"sync-enabled", "", "", "Whether clients in PHP perform a job in the process that puts it",
		"", ""},
}

// settingsOfQueues are the settings of single queues, by the suffix of their names.
var settingsOfQueues = map[string]setting{
	"-heartbeat":       {Meaning: "How long a lock on a job of the queue lasts", Unit: "s"},
	"-max-concurrency": {Meaning: "The most jobs of the queue that run at once", Unit: "jobs"},
	"-max-rate":        {Meaning: "The most jobs of the queue that are started in a time"},
}

// settings shows the settings.
func (s *site) settings(ctx context.Context, _ query) (*view, error) {
	all, err := s.Client.Config().All(ctx)
	return &view{Title: "Settings", Data: newSettingsData(all), isStill: true}, err
}

func newSettingsData(values map[string]string) *settingsData {
	data := &settingsData{Queues: []setting{}, Others: []setting{}}
	left := maps.Clone(values)
	for _, one := range knownSettings {
		one.Value = values[one.Name]
		data.Known = append(data.Known, one)
		delete(left, one.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if one := settingOfQueue(name, values[name]); one.Queue != "" {
			data.Queues = append(data.Queues, one)
		} else {
			data.Others = append(data.Others, one)
		}
	}
	return data
}

// settingOfQueue returns a setting, with the queue and the meaning if it is the setting of a queue.
func settingOfQueue(name, value string) setting {
	for suffix, known := range settingsOfQueues {
		if queue, found := strings.CutSuffix(name, suffix); found && queue != "" {
			known.Name, known.Value, known.Queue = name, value, queue
			return known
		}
	}
	return setting{Name: name, Value: value}
}
