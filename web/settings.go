package web

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/qless/qless-go"
)

// A settingsData is the settings of a namespace.
type settingsData struct {
	Known  []setting `json:"known"`
	Queues []setting `json:"queues"` // those of queues
	Others []setting `json:"others"` // of which this package knows nothing
}

// A setting is one that has a value, or that is known.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`             // empty if it is not set and has no default
	Default string `json:"default,omitempty"` // empty if it has none
	Meaning string `json:"meaning,omitempty"`
	Queue   string `json:"queue,omitempty"`
}

// IsDefault reports whether the setting has its default.
func (s setting) IsDefault() bool { return s.Value == s.Default }

// knownSettings are those of all queues.
var knownSettings = []setting{
	{Name: "application", Default: "qless", Meaning: "A name for people to read."},
	{Name: qless.ConfigHeartbeat, Default: "60",
		Meaning: "How many seconds a lock lasts unless its worker renews it."},
	{Name: qless.ConfigGracePeriod, Default: "10",
		Meaning: "For how many seconds a worker whose lock has ended may still report."},
	{Name: qless.ConfigMaxWorkerAge, Default: "86400",
		Meaning: "For how many seconds a silent worker is listed."},
	{Name: qless.ConfigBackoffInitialDelay, Default: "0",
		Meaning: "After how many seconds a job that its worker lost is run again, before the factor."},
	{Name: qless.ConfigBackoffFactor, Default: "3",
		Meaning: "By what that delay is multiplied each time that the job is lost."},
	{Name: qless.ConfigJobsHistory, Default: "604800",
		Meaning: "For how many seconds completed jobs are kept."},
	{Name: qless.ConfigJobsHistoryCount, Default: "50000",
		Meaning: "How many completed jobs are kept."},
	{Name: qless.ConfigJobsFailedHistory,
		Meaning: "For how many seconds failed jobs are kept. If it is not set, for ever."},
	{Name: qless.ConfigJobsFailedHistoryCount,
		Meaning: "How many failed jobs are kept in each failure group. If it is not set, all."},
	{Name: qless.ConfigMaxJobHistory, Default: "100",
		Meaning: "How many entries the history of a job keeps. 0 means all."},
	{Name: qless.ConfigStatsHistory, Default: "30", Meaning: "For how many days statistics are kept."},
	{Name: qless.ConfigHistogramHistory, Default: "7",
		Meaning: "For how many days histograms are kept."},
	{Name: "sync-enabled",
		Meaning: "Whether clients in PHP perform a job in the process that puts it."},
}

// settingsOfQueues are the settings of single queues, by the end of their names.
var settingsOfQueues = map[string]string{
	"-heartbeat":       "How many seconds a lock on the queue's jobs lasts.",
	"-max-concurrency": "How many of the queue's jobs run at once.",
	"-max-rate":        "How many of the queue's jobs are started in how many seconds.",
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
		one := setting{Name: name, Value: values[name]}
		if one.Queue, one.Meaning = settingOfQueue(name); one.Queue != "" {
			data.Queues = append(data.Queues, one)
		} else {
			data.Others = append(data.Others, one)
		}
	}
	return data
}

// settingOfQueue returns the queue of a setting of a queue, and what it means.
func settingOfQueue(name string) (queue, meaning string) {
	for suffix, meaning := range settingsOfQueues {
		if queue, found := strings.CutSuffix(name, suffix); found && queue != "" {
			return queue, meaning
		}
	}
	return "", ""
}
