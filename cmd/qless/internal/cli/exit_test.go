package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatuses(t *testing.T) {
	e := newEnv(t)
	scene(t, e.Client())
	for words, status := range map[string]int{
		"job show nope":                                  3,
		"job show waiting nope":                          3,
		"job graph nope":                                 3,
		"job wait nope":                                  3,
		"job wait failed":                                1,
		"job wait waiting --timeout 20ms":                5,
		"queue wait mail --timeout 20ms":                 5,
		"queue show nope":                                3,
		"failed show nope":                               3,
		"failed unfail nope --yes":                       3,
		"recur show nope":                                3,
		"recur cancel nope --yes":                        3,
		"schedule show nope":                             3,
		"schedule forget nope --yes":                     3,
		"worker show nope":                               3,
		"limit show nope":                                3,
		"job unfail waiting":                             4,
		"job unfail nope":                                3,
		"job cancel done --yes":                          4,
		"job timeout waiting --yes":                      4,
		"job promote running":                            4,
		"job depend waiting --on child":                  4,
		"job edit running --data 1 --yes":                4,
		"job edit done --data 1 --yes":                   4,
		"job put mail Welcome --jid waiting --if absent": 4,
		"job put mail Welcome {":                         2,
		"job put mail Welcome --header x":                2,
		"job put mail Welcome --at noon":                 2,
		"job put mail Welcome --replace":                 2,
		"job move waiting":                               2,
		"job ls":                                         2,
		"job ls -s failed -q mail":                       2,
		"job find":                                       2,
		"job find -s sleeping":                           2,
		"job find --cursor x":                            2,
		"job undepend child":                             2,
		"job edit waiting":                               2,
		"queue move mail mail --yes":                     2,
		"queue stats --day today":                        2,
		"recur set hourly":                               2,
		"limit set shop":                                 2,
		"limit hold shop soon":                           2,
	} {
		r := e.fields(words)
		require.Equal(t, status, r.status, "%s: %s", words, r.errors)
		require.Contains(t, r.errors, "qless: ", words)
	}
}

func TestJobsThatAreLeftAreNamed(t *testing.T) {
	e := newEnv(t)
	scene(t, e.Client())
	r := e.fields("job cancel failed waiting done nope --yes")
	require.Equal(t, run{4, "", "canceled 1 job\n" +
		"  done: the job is complete\n" +
		"  nope: no such job\n" +
		"  waiting: child depends on it\n" +
		"qless: 3 jobs were left\n"}, r)
}

func TestARefusalOfTheServerHasAHint(t *testing.T) {
	e, _ := newReal(t)
	e.redis("config set maxmemory 1")
	require.Contains(t, e.exits(1, "job put mail Welcome"), "\nhint: free memory or raise maxmemory\n")
	e.redis("config set maxmemory 0")
	e.redis("acl setuser default -evalsha -eval")
	require.Contains(t, e.exits(1, "job put mail Welcome"),
		"\nhint: grant the user the permissions in docs/security.md\n")
}
