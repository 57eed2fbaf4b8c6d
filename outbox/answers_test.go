package outbox

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// Every code of package qless is in the table, or can't come from a put.
func TestEachCodeOfAnErrorIsSorted(t *testing.T) {
	notOfPuts := map[string]bool{}
	for _, code := range []string{
		"canceled", "exists", "failed", "finished", "has_dependents", "lock_lost", "max_run_time",
		"not_failed", "not_running", "not_scheduled", "running", "stopped", "unfinished",
		"wrong_queue",
	} {
		notOfPuts[code] = true
		require.Equal(t, odd, answerOf(&qless.Error{Code: qless.Code(code)}))
	}
	source := must(os.ReadFile("../errors.go"))(t)
	found := regexp.MustCompile(`Err\w+ +Code = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, found, len(notOfPuts)+len(answersByCode))
	for _, match := range found {
		_, sorted := answersByCode[qless.Code(match[1])]
		require.NotEqual(t, sorted, notOfPuts[match[1]], match[1])
	}
	require.Equal(t, odd, answerOf(errors.New("unexpected")))
}

// A server that refuses every put is asked once a pass, and no row is in doubt or set aside.
func TestAServerThatRefusesAll(t *testing.T) {
	for _, refusal := range testkit.Refusals {
		t.Run(refusal, func(t *testing.T) {
			s := newShop(t, SQLite)
			s.fill(20)
			r := s.relay()
			allow := s.redis.Refuse(t, refusal)
			pass := r.Pass(t.Context())
			require.Error(t, pass.Err)
			require.Equal(t, 20, pass.Left)
			require.Zero(t, pass.Problems)
			want := refusesAll
			if refusal == "BUSY" || refusal == "READONLY" {
				want = away
			}
			require.Equal(t, want, answerOf(pass.Err), "%v", pass.Err)
			require.Error(t, r.Pass(t.Context()).Err)
			allow()
			require.Equal(t, Pass{Put: 20}, s.pass(r), "at once")
			s.requireAll(true)
		})
	}
}

// A row waiting for a job that must exist holds up no other row, and is tried again.
func TestAJobThatMustExistHoldsUpNoOther(t *testing.T) {
	onEach(t, func(s *shop) {
		child := s.put("q", nil, qless.DependsOn{"parent"}.MustExist())
		s.fill(3)
		r := s.relay()
		require.Equal(s, Pass{Put: 3, Left: 1}, s.pass(r))
		must(s.client.Queue("p").Put(s.Context(), "K", nil, qless.JID("parent")))(s)
		s.expireLeases()
		require.Equal(s, Pass{Put: 1}, s.pass(r))
		require.Equal(s, []string{"parent"}, s.job(child).Dependencies)

		s.put("q", nil, qless.DependsOn{"nobody"}.MustExist())
		for range maxTries {
			require.Equal(s, Pass{Left: 1}, s.pass(r))
			s.expireLeases()
		}
		require.Equal(s, Pass{Problems: 1}, s.pass(r))
		require.Equal(s, aside(1, "not_found"), s.stats())
	})
}
