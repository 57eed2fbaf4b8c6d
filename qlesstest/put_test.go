package qlesstest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

func TestRequirePutFindsAJobInEachState(t *testing.T) {
	for state, option := range map[qless.State]qless.PutOption{
		qless.StateWaiting:   qless.Priority(0),
		qless.StateScheduled: qless.Delay(time.Hour),
		qless.StateDepends:   qless.DependsOn{"other"},
	} {
		t.Run(string(state), func(t *testing.T) {
			client := qlesstest.New(t).Client()
			put(t, client, "Other", qless.JID("other"))
			jid := put(t, client, "K", option)
			job := qlesstest.RequirePut(t, client, "q", "K")
			require.Equal(t, jid, job.JID)
			require.Equal(t, state, job.State)
		})
	}
}

func TestRequirePutReturnsTheNewestJob(t *testing.T) {
	server := qlesstest.New(t)
	client := server.Client()
	put(t, client, "K")
	put(t, client, "K")
	newest := put(t, client, "K")
	require.Equal(t, newest, qlesstest.RequirePut(t, client, "q", "K").JID)
	server.Clock().Advance(time.Second)
	newest = put(t, client, "K", qless.Delay(time.Hour))
	require.Equal(t, newest, qlesstest.RequirePut(t, client, "q", "K").JID)
}

func TestRequirePutOfDecodesTheData(t *testing.T) {
	client := qlesstest.New(t).Client()
	klass := qless.NewKlass[int]("K")
	_, err := klass.Put(t.Context(), client.Queue("q"), 7)
	require.NoError(t, err)
	job, data := qlesstest.RequirePutOf(t, client, "q", klass)
	require.Equal(t, "K", job.Klass)
	require.Equal(t, 7, data)
	requireFailure(t, func(t testing.TB) {
		qlesstest.RequirePutOf(t, client, "q", qless.NewKlass[string]("K"))
	}, "qlesstest.RequirePutOf: ", "cannot unmarshal number")
}

func TestRequirePutListsWhatIsThere(t *testing.T) {
	client := qlesstest.New(t).Client()
	require := func(queue, klass string, parts ...string) {
		t.Helper()
		requireFailure(t, func(t testing.TB) { qlesstest.RequirePut(t, client, queue, klass) }, parts...)
	}
	require("q", "K", "queue q has no K, but nothing")
	put(t, client, "Other", qless.JID("j1"))
	put(t, client, "Other", qless.JID("j2"), qless.Delay(time.Hour))
	require("q", "K", "queue q has no K, but ", "Other j1 (waiting)", "Other j2 (scheduled)")
	for range 30 {
		put(t, client, "Other")
	}
	require("q", "K", "12 more")
	require("elsewhere", "Other", "nothing")
}
