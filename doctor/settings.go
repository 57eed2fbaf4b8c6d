package doctor

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/settings"
)

const endedDanger = "locks expire at once, except those of Go workers and receivers"

// settings examines the settings of the namespace.
func (e *exam) settings(ctx context.Context) error {
	key := e.Namespace + "config"
	if kind, err := e.rdb.Type(ctx, key).Result(); err != nil || kind != keys.Hash {
		return err
	}
	return e.members(ctx, key, keys.Hash, func(name, value string) error {
		e.setting(name, value)
		return nil
	})
}

// setting examines a setting.
func (e *exam) setting(name, value string) {
	about := func(code ReasonCode, details string) {
		e.record(newFinding(e.Namespace, code, "config", name, details, false))
	}
	known, _, ok := settings.Of(name)
	n, isNumber := parseNumber(value)
	switch {
	case !ok:
		about(ReasonSettingUnknown, value)
	case known.Kind == settings.Rate && !isRate(value), known.Kind.IsNumber() && !isNumber:
		about(ReasonSettingInvalid, fmt.Sprintf("%q", value))
	case known.Kind == settings.LockTime && n <= 0:
		about(ReasonSettingDangerous, value+": "+endedDanger)
	case n < known.Least && known.Danger != "":
		about(ReasonSettingDangerous, value+": "+known.Danger)
	}
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
