package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/tests/scripts"
)

// addKey adds a key of a kind.
func (e *env) addKey(kind keys.Kind) {
	e.t.Helper()
	key := "ql:" + kind.Example()
	switch kind.Type {
	case keys.String:
		e.do(e.rdb.Set(e.ctx, key, "1", 0).Err())
	case keys.Hash:
		e.do(e.rdb.HSet(e.ctx, key, "1", "1").Err())
	case keys.List:
		e.do(e.rdb.RPush(e.ctx, key, "1").Err())
	case keys.Set:
		e.do(e.rdb.SAdd(e.ctx, key, "1").Err())
	case keys.ZSet:
		e.do(e.rdb.Do(e.ctx, "zadd", key, 1, "1").Err())
	}
	if kind.Lasts > 0 {
		e.do(e.rdb.PExpire(e.ctx, key, kind.Lasts+time.Minute).Err())
	}
}

// Every kind of key is known, even a key that lasts for seconds after a worker has stopped.
func TestKeysOfAllKindsAreKnown(t *testing.T) {
	e := newEnvWith(t, nil)
	for _, kind := range keys.Kinds() {
		e.addKey(kind)
	}
	report := e.report(e.options())
	require.Equal(t, len(keys.Kinds()), report.Keys)
	for _, f := range report.Findings {
		require.NotContains(t, []doctor.ReasonCode{doctor.ReasonUnknownKey, doctor.ReasonDamaged}, f.Code, f.Sentence)
	}
}

func TestAWorkerThatStopsLeavesNoUnknownKey(t *testing.T) {
	e := newEnvWith(t, nil)
	worker := must(qless.NewWorker(e.Client, qless.WorkerConfig{Queues: []string{"q"}}))(t)
	worker.Handle("K", nothing)
	e.do(worker.Start(t.Context()))
	e.do(worker.Stop(t.Context()))
	require.Empty(t, e.examine())
}

// The type of a key tells a job from another job's list. Classic clients put such jobs.
func TestAJobMayBeNamedLikeAList(t *testing.T) {
	e := newEnvWith(t, nil)
	for _, jid := range []string{"a-history", "b-dependents", "c-history-dependencies"} {
		e.do(errOf(scripts.Run(t.Context(), e.rdb, "ql:", time.Now(), "put", "w1", "q", jid, "K", "{}", 0)))
	}
	require.Empty(t, e.examine())
	e.redis("ZREM q:q-work a-history")
	found := e.examine()
	requireFound(t, "lost j:a-history", found)
	require.Equal(t, "a-history", found[0].JID)
	require.Len(t, e.fix(found...), 1)
	require.Empty(t, e.examine())
}

func TestAnInnerNamespaceIsToldOnce(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "a")
	inner := must(qless.New(e.rdb, &qless.ClientConfig{Namespace: "ql:eu:"}))(t)
	for _, jid := range strings.Fields("b c d") {
		e.do(errOf(inner.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid))))
	}
	report := e.report(e.options())
	requireFound(t, "no_persistence, inner_namespace eu:", report.Findings)
	require.Equal(t, 1, report.Jobs)
	count := report.Keys

	reports := must(doctor.ExamineAll(t.Context(), e.rdb, e.options(), "ql:", "ql:eu:"))(t)
	requireFound(t, "no_persistence, inner_namespace eu:", reports[0].Findings)
	require.Equal(t, count, reports[0].Keys)
	require.Empty(t, reports[1].Findings)
	require.Equal(t, 3, reports[1].Jobs)
}
