package lmstfy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const goodFile = `Host = "0.0.0.0"
Port = 7777
AdminPort = 7778
TTRSecond = 5
TTLSecond = 0

[AdminRedis]
Addr = "a:1"

[Pool.default]
Addr = "b:1, b:2"
MasterName = "m"
`

func TestAFileSaysWhatTheOtherServerReads(t *testing.T) {
	file, err := parseFile(goodFile)
	require.NoError(t, err)
	require.Equal(t, "0.0.0.0:7777", file.Addr())
	require.Equal(t, "127.0.0.1:7778", file.AdminAddr())
	pool := file.Pool[DefaultPool]
	require.Equal(t, []string{"b:1", "b:2"}, pool.addrs())
	config := file.Config()
	require.Equal(t, 5*time.Second, config.TTR)
	require.EqualValues(t, -1, config.TTL)
	require.Equal(t, 1, config.Tries)
}

func TestInvalidFiles(t *testing.T) {
	for problem, change := range map[string][2]string{
		"invalid host":       {`Host = "0.0.0.0"`, ""},
		"invalid port":       {"Port = 7777", ""},
		"invalid admin port": {"AdminPort = 7778", ""},
		"default redis pool": {"Pool.default", "Pool.other"},
		"pool(default)":      {`Addr = "b:1, b:2"`, ""},
		"admin redis":        {`Addr = "a:1"`, ""},
		"invalid log level":  {"TTRSecond = 5", `LogLevel = "loud"`},
		"expected":           {"TTRSecond = 5", "TTRSecond ="},
		"greater than 0":     {`Addr = "b:1, b:2"`, "Addr = \"b:1\"\nDB = -1"},
		"incompatible types": {"Port = 7777", `Port = "many"`},
	} {
		_, err := parseFile(strings.Replace(goodFile, change[0], change[1], 1))
		require.ErrorContains(t, err, problem)
	}
}

func FuzzFile(f *testing.F) {
	f.Add(goodFile)
	f.Add("[Pool")
	f.Fuzz(func(t *testing.T, text string) {
		if file, err := parseFile(text); err == nil {
			_ = file.Config()
		}
	})
}
