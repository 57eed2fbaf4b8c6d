package dial

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// ParseURL parses the URL of a server. A malformed URL may have the password anywhere, so problems
// quote only the names of options.
func ParseURL(raw string) (*redis.Options, *Problem) {
	if message := misspelt(raw); message != "" {
		return nil, &Problem{Message: message}
	}
	options, err := redis.ParseURL(raw)
	if err != nil {
		return nil, &Problem{Message: whyRefused(raw)}
	}
	return options, nil
}

const wantURL = "want redis://localhost:6379 or the like"

const specialCharacter = "the URL can't be read: is there a special character in the password? " +
	"write it percent-encoded, as in %2F"

// misspelt describes a mistake in a URL. It returns the empty string if all parts can be
// recognized.
func misspelt(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	switch {
	case strings.TrimSpace(raw) == "":
		return "the URL is empty: is REDIS_URL set?"
	case strings.ContainsFunc(raw, unicode.IsSpace), strings.ContainsFunc(raw, unicode.IsControl):
		return "the URL has a space or a control character: write it percent-encoded, as in %20"
	case !found || scheme == "":
		return "the URL has no scheme: " + wantURL
	case !slices.Contains([]string{"redis", "rediss", "unix"}, strings.ToLower(scheme)):
		return "the URL's scheme is not redis, rediss or unix: " + wantURL +
			"; for sentinels or a cluster, use New with a client of go-redis"
	}
	// The host begins after the last @ before the path: an @ further on means that the password has
	// a character that is not encoded.
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return specialCharacter
	}
	parsed, err := url.Parse(raw)
	if err != nil {
		return specialCharacter
	}
	if port := parsed.Port(); port != "" && !isPort(port) {
		return "the URL's port is not a number from 1 to 65535"
	}
	return ""
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// whyRefused returns which part of a parsed URL go-redis refuses.
func whyRefused(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil {
		return specialCharacter
	}
	for name, values := range parsed.Query() {
		alone := url.URL{Scheme: "redis", RawQuery: url.Values{name: values}.Encode()}
		if _, err := redis.ParseURL(alone.String()); err != nil {
			return "the URL's option \"" + name + "\" is unknown, or its value can't be used"
		}
	}
	if parsed.Scheme == "unix" {
		return "the URL has no path of a socket: want unix:///run/redis.sock or the like"
	}
	return "the URL's path is no database number: want redis://localhost:6379/0 or the like"
}
