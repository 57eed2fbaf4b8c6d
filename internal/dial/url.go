package dial

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"
)

// A Target is the destination of a URL: one server, a cluster, or the master known to sentinels.
// One field is set.
type Target struct {
	single  *redis.Options
	cluster *redis.ClusterOptions
	master  *redis.FailoverOptions
}

// ParseURL parses a URL in the forms of go-redis. With the option "cluster", the URL names servers
// of a cluster, and with "master_name", sentinels. A malformed URL may have the password anywhere,
// so problems quote only the names of options.
func ParseURL(raw string) (*Target, *Problem) {
	if message := misspelt(raw); message != "" {
		return nil, &Problem{Message: message}
	}
	parsed, err := url.Parse(raw)
	if err != nil {
		return nil, &Problem{Message: specialCharacter}
	}
	options := parsed.Query()
	cluster, err := strconv.ParseBool(cmp.Or(options.Get("cluster"), "false"))
	if err != nil {
		return nil, &Problem{Message: refusedOption("cluster")}
	}
	if options.Has("cluster") { // unknown to go-redis
		options.Del("cluster")
		parsed.RawQuery = options.Encode()
	}
	t := &Target{}
	parse := t.parseSingle
	switch sentinels := options.Has("master_name"); {
	case cluster && sentinels:
		return nil, &Problem{Message: "the URL has both of the options \"cluster\" and " +
			"\"master_name\": a cluster has no sentinels"}
	case parsed.Scheme == "unix" && (cluster || sentinels):
		return nil, &Problem{Message: "the URL names a socket: for a cluster or sentinels, " + wantURL}
	case cluster && strings.Trim(parsed.Path, "/0") != "":
		return nil, &Problem{Message: "a cluster has no database but 0: leave it out of the URL"}
	case cluster:
		parse = t.parseCluster
	case sentinels && options.Get("master_name") == "":
		return nil, &Problem{Message: refusedOption("master_name")}
	case sentinels:
		parse = t.parseMaster
	case options.Has("addr"):
		return nil, &Problem{Message: "the URL's option \"addr\" names further servers: " + wantMore}
	}
	if err := parse(parsed.String()); err != nil {
		return nil, &Problem{Message: whyRefused(parsed, parse)}
	}
	return t, nil
}

// IsCluster reports whether the target is a cluster.
func (t *Target) IsCluster() bool { return t.cluster != nil }

// Client returns a client with calls that end with their contexts.
func (t *Target) Client() redis.UniversalClient {
	switch {
	case t.cluster != nil:
		t.cluster.ContextTimeoutEnabled = true
		return redis.NewClusterClient(t.cluster)
	case t.master != nil:
		t.master.ContextTimeoutEnabled = true
		return redis.NewFailoverClient(t.master)
	}
	t.single.ContextTimeoutEnabled = true
	return redis.NewClient(t.single)
}

func (t *Target) parseSingle(raw string) (err error) {
	t.single, err = redis.ParseURL(raw)
	return err
}

func (t *Target) parseCluster(raw string) (err error) {
	t.cluster, err = redis.ParseClusterURL(raw)
	return err
}

func (t *Target) parseMaster(raw string) (err error) {
	t.master, err = redis.ParseFailoverURL(raw)
	return err
}

const wantURL = "want redis://localhost:6379 or the like"

const wantMore = "for a cluster, add cluster=true, and for sentinels, master_name=NAME"

const specialCharacter = "the URL can't be read: is there a special character in the password? " +
	"write it percent-encoded, as in %2F"

// misspelt describes a mistake in a URL, or returns the empty string if all parts are recognized.
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
		return "the URL's scheme is not redis, rediss or unix: " + wantURL + "; " + wantMore
	}
	// The host begins after the last @ before the path: a later @ means that the password has an
	// unencoded character.
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

func refusedOption(name string) string {
	return "the URL's option \"" + name + "\" is unknown, or its value can't be used"
}

// whyRefused names the part of a URL that go-redis refuses.
func whyRefused(parsed *url.URL, parse func(string) error) string {
	for name, values := range parsed.Query() {
		alone := url.URL{Scheme: "redis", RawQuery: url.Values{name: values}.Encode()}
		if parse(alone.String()) != nil {
			return refusedOption(name)
		}
	}
	if parsed.Scheme == "unix" {
		return "the URL has no path of a socket: want unix:///run/redis.sock or the like"
	}
	return "the URL's path is no database number: want redis://localhost:6379/0 or the like"
}
