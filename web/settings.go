package web

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/settings"
	"github.com/qless/qless-go/web/internal/words"
)

// A settingsData holds the settings of a namespace.
type settingsData struct {
	Known  []setting `json:"known"`
	Queues []setting `json:"queues"` // settings of queues
	Others []setting `json:"others"` // unknown to this package
}

// A setting is a known or set setting.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`             // empty if unset without a default
	Default string `json:"default,omitempty"` // empty without a default
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

// settingOf returns a setting with this value, and its row of the table of settings.
func settingOf(name, value string) setting {
	known, queue, _ := settings.Of(name)
	return setting{name, value, known.Default, known.Meaning, known.Unit, queue}
}

// settings shows the settings.
func (s *site) settings(ctx context.Context, _ query) (*view, error) {
	all, err := s.Client.Config().All(ctx)
	return &view{Title: "Settings", Data: newSettingsData(all), isStill: true}, err
}

func newSettingsData(values map[string]string) *settingsData {
	data := &settingsData{Queues: []setting{}, Others: []setting{}}
	left := maps.Clone(values)
	for _, known := range settings.OfNamespaces {
		data.Known = append(data.Known, settingOf(known.Name, values[known.Name]))
		delete(left, known.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if one := settingOf(name, values[name]); one.Queue != "" {
			data.Queues = append(data.Queues, one)
		} else {
			data.Others = append(data.Others, one)
		}
	}
	return data
}
