package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// chain returns an error and all errors beneath it.
func chain(err error) []error {
	if err == nil {
		return nil
	}
	all := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = append(all, chain(one)...)
		}
	}
	return append(all, chain(errors.Unwrap(err))...)
}

// dial fails to dial a URL. It returns the error, and the texts of the error, those beneath it, the
// log and go-redis.
func dial(t *testing.T, url string) (texts string, err error) {
	t.Helper()
	var log bytes.Buffer
	heard := testkit.Overhear(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := qless.Dial(ctx, url, &qless.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Error(t, err)
	require.Nil(t, client)
	for _, one := range chain(err) {
		texts += fmt.Sprintf("%s\n%v\n%+v\n%#v\n%q\n", one.Error(), one, one, one, one)
	}
	return texts + log.String() + heard(), err
}

func TestDialRevealsNoSecretsOfAnUnreadableURL(t *testing.T) {
	const encoded = "is there a special character in the password? write it percent-encoded, as in %2F"
	for url, hint := range map[string]string{
		"redis://alice:pa5s/w0rd@host:6379":          encoded,
		"redis://:1234/w0rd@host:6379":               encoded,
		"redis://alice:1234/w0rd@host:6379/0":        encoded,
		"redis://alice:pa5s?w0rd@host:6379":          encoded,
		"redis://:1234?w0rd@host:6379":               encoded,
		"redis://alice:pa5s#w0rd@host:6379":          encoded,
		"redis://:1234#w0rd@host:6379":               encoded,
		"redis://alice:pa5s%w0rd@host:6379":          encoded,
		"redis://alice:pa5s%":                        encoded,
		"redis://alice:pa5s[w0rd@host:6379":          encoded,
		"redis://alice:pa5s\\w0rd@host:6379":         encoded,
		"redis://alice:pa5s\"w0rd@host:6379":         encoded,
		"redis://alice:pa5s@host/w0rd@host:6379":     encoded,
		"redis://alice:pa5sw0rd@host:port":           encoded,
		"redis://alice:pa5sw0rd@host:0":              "from 1 to 65535",
		"redis://alice:pa5sw0rd@host:65536":          "from 1 to 65535",
		"redis://host:99999999999999999999":          "from 1 to 65535",
		"rediss://[::1]:123456/0":                    "from 1 to 65535",
		"redis://alice:pa5sw0rd@[host:6379":          encoded,
		"redis://alice:pa5sw0rd":                     encoded,
		"rediss://alice:pa5s/w0rd@host:6379":         encoded,
		"unix://alice:1234/w0rd@/run/redis.sock":     encoded,
		"redis:/alice:pa5sw0rd@host:6379":            "redis://localhost:6379",
		"redis:alice:pa5sw0rd@host:6379":             "redis://localhost:6379",
		"alice:pa5sw0rd@host:6379":                   "redis://localhost:6379",
		"//alice:pa5sw0rd@host:6379":                 "redis://localhost:6379",
		"redis://alice:pa5s w0rd@host:6379":          "a space",
		" redis://alice:pa5sw0rd@host:6379":          "a space",
		"redis://alice:pa5sw0rd@host:6379\n":         "a space",
		"redis://alice:pa5sw0rd@host\x00:6379":       "a space",
		"redis-sentinel://alice:pa5sw0rd@host:26379": "sentinel",
		"redis+sentinel://alice:pa5sw0rd@host:26379": "sentinel",
		"alice://pa5sw0rd@host:26379":                "sentinel",
		"redis://alice:pa5sw0rd@host:6379/w0rd":      "no database number",
		"redis://alice:pa5sw0rd@host:6379/0/1":       "no database number",
		"redis://alice:pa5sw0rd@host?db=w0rd":        `"db"`,
		"redis://host?dial_timeout=w0rd":             `"dial_timeout"`,
		"redis://host?password=pa5sw0rd":             `"password"`,
		"redis://host/0?protocol=w0rd&pool_size=1":   `"protocol"`,
		"unix://alice:pa5sw0rd@":                     "no path",
		"redis://host?addr=host2:6379":               "add cluster=true",
		"redis://host?cluster=w0rd":                  `"cluster"`,
		"redis://host?cluster=true&addr=w0rd":        `"addr"`,
		"redis://host?cluster=true&db=1":             `"db"`,
		"redis://host/1?cluster=true":                "no database but 0",
		"redis://host?cluster=true&master_name=w0rd": "both of the options",
		"redis://host?cluster=true&password=pa5s":    `"password"`,
		"redis://host?master_name=":                  `"master_name"`,
		"redis://host?master_name=m&pool_size=w0rd":  `"pool_size"`,
		"redis://host/w0rd?master_name=m":            "no database number",
		"unix:///run/redis.sock?cluster=true":        "names a socket",
		"":                                           "is REDIS_URL set?",
		" \n":                                        "is REDIS_URL set?",
		"localhost:6379":                             "want redis://localhost:6379",
		"localhost":                                  "redis://localhost:6379",
		"6379":                                       "redis://localhost:6379",
	} {
		t.Run(url, func(t *testing.T) {
			texts, err := dial(t, url)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, hint)
			for _, secret := range []string{"alice", "pa5s", "w0rd", "1234"} {
				require.NotContains(t, texts, secret)
			}
		})
	}
}

func TestDialRevealsNoPasswordWhenItCannotConnect(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.ACLSetUser(t.Context(), "alice", "on", ">another", "+@all").Err())
	for what, url := range map[string]string{
		"a wrong password":     "redis://alice:pa5s%2Fw0rd@" + e.Server.Addr(),
		"an unknown user":      "redis://nobody:pa5s%2Fw0rd@" + e.Server.Addr(),
		"an unknown host":      "redis://alice:pa5s%2Fw0rd@host.invalid:6379?max_retries=-1",
		"no one listens":       "redis://alice:pa5s%2Fw0rd@127.0.0.1:1?max_retries=-1",
		"a server without TLS": "rediss://alice:pa5s%2Fw0rd@" + e.Server.Addr() + "?max_retries=-1&dial_timeout=100ms",
		"a socket":             "unix://alice:pa5s%2Fw0rd@/nowhere/redis.sock?max_retries=-1",
		"no sentinel listens":  "redis://alice:pa5s%2Fw0rd@127.0.0.1:1?master_name=m&password=pa5sw0rd",
		"no cluster listens":   "redis://alice:pa5s%2Fw0rd@127.0.0.1:1?cluster=true&max_retries=-1",
	} {
		t.Run(what, func(t *testing.T) {
			texts, _ := dial(t, url)
			require.NotContains(t, texts, "pa5s")
			require.NotContains(t, texts, "w0rd")
		})
	}
}

func TestDialTakesAPasswordThatIsPercentEncoded(t *testing.T) {
	e := newEnv(t)
	const password = `a/b?c#d%e@f:g[h]i\j"k l`
	const encoded = "a%2Fb%3Fc%23d%25e%40f%3Ag%5Bh%5Di%5Cj%22k%20l"
	rules := []string{"on", ">" + password, "~*", "&*", "+@all"}
	require.NoError(t, e.Redis.ACLSetUser(t.Context(), "alice", rules...).Err())
	client := must(qless.Dial(t.Context(), "Redis://alice:"+encoded+"@"+e.Server.Addr()+"/0?dial_timeout=5s", nil))(t)
	defer client.Close()
	require.NoError(t, errOf(client.Queue("q").Counts(t.Context())))
}
