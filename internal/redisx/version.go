package redisx

import (
	"slices"
	"strconv"
	"strings"
)

// OldestServer is the first series of Redis that works.
const OldestServer = "6.2"

// SeriesOf returns the major and the minor number of a version, if it has them.
func SeriesOf(version string) (series []int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return nil, false
	}
	for _, part := range parts[:2] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		series = append(series, n)
	}
	return series, true
}

// IsTooOld reports whether a version of Redis is known, and before OldestServer.
func IsTooOld(version string) bool {
	series, known := SeriesOf(version)
	oldest, _ := SeriesOf(OldestServer)
	return known && slices.Compare(series, oldest) < 0
}
