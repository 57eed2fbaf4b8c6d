package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/keys"
)

// A setting has the least sensible value of a setting, and the danger of a lower one. The names of
// queues' settings begin with a dash.
type setting struct {
	text   bool // not a number
	least  float64
	danger string
}

var knownSettings = map[string]setting{
	"application":                      {text: true},
	"sync-enabled":                     {text: true},
	qless.ConfigBackoffFactor:          {},
	qless.ConfigBackoffInitialDelay:    {},
	qless.ConfigGracePeriod:            {least: math.Inf(-1)},
	qless.ConfigHeartbeat:              {least: 5, danger: lockDanger},
	qless.ConfigHistogramHistory:       {},
	qless.ConfigJobsFailedHistory:      {least: math.Inf(-1)},
	qless.ConfigJobsFailedHistoryCount: {least: math.Inf(-1)},
	qless.ConfigJobsHistory:            {least: 60, danger: historyDanger},
	qless.ConfigJobsHistoryCount:       {least: 100, danger: historyDanger},
	qless.ConfigMaxJobHistory:          {},
	qless.ConfigMaxWorkerAge:           {least: 300, danger: "workers are forgotten while they run"},
	qless.ConfigStatsHistory:           {},
	"-heartbeat":                       {least: 5, danger: lockDanger},
	"-max-concurrency":                 {least: math.Inf(-1)},
	"-max-rate":                        {text: true},
}

const (
	endedDanger   = "locks expire at once, except those of Go workers and receivers"
	lockDanger    = "a slow network or a pause of a worker is enough to lose its jobs"
	historyDanger = "complete jobs may be deleted before they are read, or before a put is sent again"
)

// settings examines the settings of the namespace.
func (e *exam) settings() error {
	key := e.Namespace + "config"
	if kind, err := e.rdb.Type(e.ctx, key).Result(); err != nil || kind != keys.Hash {
		return err
	}
	for cursor := uint64(0); ; {
		found, next, err := e.rdb.HScan(e.ctx, key, cursor, "", int64(e.Step)).Result()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(found); i += 2 {
			e.setting(found[i], found[i+1])
		}
		if err := e.pace(); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// setting examines a setting.
func (e *exam) setting(name, value string) {
	about := func(kind Kind, details string) {
		e.record(newFinding(e.Namespace, kind, "config", name, details, false))
	}
	known, ok := settingOf(name)
	n, isNumber := parseNumber(value)
	switch {
	case !ok:
		about(KindSettingUnknown, value)
	case strings.HasSuffix(name, "-max-rate") && !isRate(value), !known.text && !isNumber:
		about(KindSettingInvalid, fmt.Sprintf("%q", value))
	case strings.HasSuffix(name, qless.ConfigHeartbeat) && n <= 0:
		about(KindSettingDangerous, value+": "+endedDanger)
	case !known.text && n < known.least && known.danger != "":
		about(KindSettingDangerous, value+": "+known.danger)
	}
}

// settingOf returns the known setting of a name.
func settingOf(name string) (setting, bool) {
	if known, ok := knownSettings[name]; ok && !strings.HasPrefix(name, "-") {
		return known, true
	}
	for _, suffix := range []string{"-heartbeat", "-max-concurrency", "-max-rate"} {
		if queue, ok := strings.CutSuffix(name, suffix); ok && queue != "" {
			return knownSettings[suffix], true
		}
	}
	return setting{}, false
}

// isRate reports whether text is a max-rate: "n/seconds".
func isRate(text string) bool {
	count, seconds, _ := strings.Cut(text, "/")
	n, ok := parseNumber(count)
	per, also := parseNumber(seconds)
	return ok && also && n >= 1 && n == math.Trunc(n) && per > 0
}

// parseNumber reads a finite number.
func parseNumber(text string) (float64, bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}
