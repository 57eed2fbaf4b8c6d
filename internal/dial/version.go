package dial

import (
	"strconv"
	"strings"
)

// IsBefore reports whether a version is known and older than major.minor.
func IsBefore(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	first, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	second, err := strconv.Atoi(parts[1])
	return err == nil && (first < major || first == major && second < minor)
}
