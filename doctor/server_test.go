package doctor_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/testkit"
)

// kinds returns the kinds of the findings about a server.
func kinds(t *testing.T, rdb redis.UniversalClient) (found []doctor.ReasonCode, skipped []string) {
	t.Helper()
	report := must(doctor.Examine(t.Context(), rdb, doctor.Options{Pause: -1}))(t)
	for _, f := range report.Findings {
		require.Equal(t, f.Code == doctor.ReasonRefused, f.Gravity == doctor.Broken)
		require.False(t, f.Fixable)
		found = append(found, f.Code)
	}
	return found, report.Skipped
}

func TestAServerThatKeepsEverythingIsWell(t *testing.T) {
	server := testkit.Start(t, "--appendonly", "yes")
	found, skipped := kinds(t, server.Client(t))
	require.Empty(t, found)
	require.Empty(t, skipped)
}

func TestAServerThatMayLoseJobs(t *testing.T) {
	server := testkit.Start(t, "--maxmemory-policy", "allkeys-lru")
	found, _ := kinds(t, server.Client(t))
	require.Equal(t, []doctor.ReasonCode{doctor.ReasonEvicts, doctor.ReasonNoPersistence}, found)
}

func TestAServerThatIsAReplica(t *testing.T) {
	master := testkit.Start(t, "--appendonly", "yes")
	replica := testkit.Start(t, "--appendonly", "yes", "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	rdb := replica.Client(t)
	testkit.Until(t, "it follows its master", func() bool {
		return strings.Contains(rdb.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	found, _ := kinds(t, rdb)
	require.Equal(t, []doctor.ReasonCode{doctor.ReasonRefused}, found)
}

// A renamed server reports another version.
type renamed struct{ info string }

func (r renamed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r renamed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r renamed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			reply.SetVal(r.info)
		}
		return err
	}
}

func TestAServerNewerThanTestedIsRemarkedOnce(t *testing.T) {
	page := must(os.ReadFile("../docs/operations.md"))(t)
	server := testkit.Start(t, "--appendonly", "yes")
	for _, name := range []string{"Redis", "Valkey"} {
		row := regexp.MustCompile(`-newest. \| ` + name + ` (\d+)\.(\d+)\.`)
		newest := row.FindSubmatch(page)
		require.NotNil(t, newest, name)
		major := must(strconv.Atoi(string(newest[1])))(t)
		minor := must(strconv.Atoi(string(newest[2])))(t)
		for version, isNewer := range map[string]bool{
			fmt.Sprintf("%d.%d.99", major, minor):  false,
			fmt.Sprintf("%d.%d.0", major, minor+1): true,
			fmt.Sprintf("%d.0.0", major+1):         true,
			fmt.Sprintf("%d.%d.9", major-1, 99):    false,
			"unstable":                             false,
		} {
			rdb := server.Client(t)
			rdb.AddHook(renamed{strings.ToLower(name) + "_version:" + version + "\r\nrole:master\r\naof_enabled:1\r\n"})
			report := must(doctor.Examine(t.Context(), rdb, doctor.Options{Pause: -1}))(t)
			if !isNewer {
				require.Empty(t, report.Findings, version)
				continue
			}
			require.Len(t, report.Findings, 1, version)
			require.Equal(t, doctor.ReasonNewServer, report.Findings[0].Code)
			require.Contains(t, report.Findings[0].Sentence, name+" "+version+", which is newer")
		}
	}
}

// rules returns the rules of the documented user.
func rules(t testing.TB) []string {
	t.Helper()
	page := must(os.ReadFile("../docs/doctor.md"))(t)
	_, rest, found := strings.Cut(string(page), "\nuser doctor on ")
	require.True(t, found)
	rest, _, _ = strings.Cut(rest, "\n```")
	return strings.Fields(strings.ReplaceAll(strings.ReplaceAll(rest, "\\\n", " "), ">SECRET", ">secret"))
}

// user returns a client of the documented user, without one of the rules.
func (e *env) user(without string) *redis.Client {
	e.t.Helper()
	words := []any{"ACL", "SETUSER", "doctor", "on"}
	for _, rule := range rules(e.t) {
		if rule != without {
			words = append(words, rule)
		}
	}
	e.do(e.rdb.Do(e.t.Context(), words...).Err())
	options := testkit.Options(e.server.Addr())
	options.Username, options.Password = "doctor", "secret"
	rdb := redis.NewClient(options)
	e.t.Cleanup(func() {
		_ = rdb.Close()
		e.rdb.Do(context.Background(), "ACL", "DELUSER", "doctor")
	})
	return rdb
}

func TestAUserWithTheRulesOfThePageGetsAnEstimate(t *testing.T) {
	for _, without := range []string{"", "+hlen"} {
		e := newEnvWith(t, nil)
		e.furnish()
		whole := must(doctor.EstimateExam(t.Context(), e.rdb, e.options()))(t)
		estimate := must(doctor.EstimateExam(t.Context(), e.user(without), e.options()))(t)
		require.Equal(t, whole.Keys, estimate.Keys)
		require.Positive(t, estimate.Steps)
	}
}

func TestAUserWithTheRulesOfThePage(t *testing.T) {
	for name, without := range map[string]string{
		"all": "", "without INFO": "+info", "without CONFIG": "+config|get", "without DBSIZE": "+dbsize",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvWith(t, nil)
			e.furnish()
			rdb := e.user(without)
			for _, d := range damages {
				e.redis(d.do)
			}
			report := must(doctor.Examine(t.Context(), rdb, doctor.Options{Pause: -1}))(t)
			require.Equal(t, without == "", len(report.Skipped) == 0, "%q", report.Skipped)
			fixed := must(doctor.Fix(t.Context(), rdb, doctor.Options{Pause: -1}, report.Findings...))(t)
			require.NotEmpty(t, fixed)
		})
	}
}
