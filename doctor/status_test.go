package doctor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

func TestAStatusHasTheRatesThatItIsGiven(t *testing.T) {
	e := newEnv(t)
	e.put("mail", "j1")
	e.put("images", "j2")
	to := time.Now()
	ended := func(queue string, completed int) inspect.RateGroup {
		return inspect.RateGroup{Name: queue, Rates: inspect.Rates{Completed: completed}}
	}
	rates := doctor.QueueRates{
		From: to.Add(-2 * time.Minute), To: to,
		Queues: []inspect.RateGroup{ended("mail", 4), ended("images", 2), ended("mail", 6)},
	}
	reader := doctor.StatusReader{
		Client: e.Client, Rates: func(context.Context) (doctor.QueueRates, error) { return rates, nil },
	}
	status, err := reader.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, rates.From, status.RatesFrom)
	require.Equal(t, rates.To, status.RatesTo)
	require.InDelta(t, 6, status.Rates.Completed, 1e-9)
	byQueue := map[string]float64{}
	for _, queue := range status.Queues {
		byQueue[queue.Name] = queue.Rates.Completed
	}
	require.InDeltaMapValues(t, map[string]float64{"mail": 5, "images": 1}, byQueue, 1e-9)

	reader.Rates = func(context.Context) (doctor.QueueRates, error) {
		return rates, errors.ErrUnsupported
	}
	_, err = reader.Read(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestAStatusHasTheRatesOfTheLastMinutes(t *testing.T) {
	e := newEnv(t)
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Minute)
	require.NoError(t, err)
	length := status.RatesTo.Sub(status.RatesFrom)
	require.GreaterOrEqual(t, length, 5*time.Minute)
	require.Less(t, length, 6*time.Minute)
	require.Zero(t, status.RatesFrom.Second())
}

func TestAStatusKnowsWhatHoldsJobsUp(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	e.put("mail", "broken")
	e.do(e.pop("mail", 1)[0].Fail(ctx, "timeout", "no answer"))
	e.put("reports", "report", qless.DependsOn{"broken"})
	e.do(e.Config().Set(ctx, "slow-max-rate", "1/3600"))
	e.put("slow", "s1 s2")
	e.pop("slow", 1)
	e.clock.Advance(time.Minute)
	status, err := doctor.ReadStatus(ctx, e.Client, time.Hour)
	require.NoError(t, err)
	found := map[string]doctor.Problem{}
	for _, p := range status.Attention {
		found[p.Code] = p
	}
	require.Equal(t, "broken", found["failed_dependency"].JID)
	require.Equal(t, "timeout", found["failed_dependency"].Group)
	require.Equal(t, "queue reports has jobs that wait for failed ones: 1, for instance for broken",
		found["failed_dependency"].Sentence)
	require.Equal(t, []string{"why", "slow"}, found["max_rate"].Command)

	key := e.Namespace() + "q:reports-depends"
	e.do(e.rdb.Del(ctx, key).Err())
	e.do(e.rdb.Set(ctx, key, "x", 0).Err())
	status, err = doctor.ReadStatus(ctx, e.Client, time.Hour)
	require.NoError(t, err)
	require.Equal(t, key, status.Attention[0].Key)
	require.Equal(t, "reports", status.Attention[0].Queue)
}

func TestAStatusKnowsDistantJobs(t *testing.T) {
	e := newEnv(t)
	const day = 24 * time.Hour
	e.put("mail", "soon", qless.Delay(400*time.Hour))
	e.put("trials", "planned", qless.Delay(40*day))
	e.put("reports", "next-decade", qless.Delay(3652*day))
	e.put("sync", "claims", qless.Delay(40*day), qless.Unique("acme"))
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
	require.NoError(t, err)
	require.Len(t, status.Attention, 1)
	p := status.Attention[0]
	require.Equal(t, "distant", p.Code)
	require.Equal(t, []string{"reports", "sync"}, p.Queues)
	require.Equal(t, []string{"job", "show", "next-decade"}, p.Command)

	e.do(e.Cancel(t.Context(), "next-decade"))
	status, err = doctor.ReadStatus(t.Context(), e.Client, time.Hour)
	require.NoError(t, err)
	require.Contains(t, status.Attention[0].Sentence, "It holds a unique key until then")
	require.Equal(t, "claims", status.Attention[0].JID)
}

func TestAStatusNamesTheDamagedListOfSchedules(t *testing.T) {
	e := newEnv(t)
	e.do(e.rdb.Set(t.Context(), e.Namespace()+"x:schedule-ids", "x", 0).Err())
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
	require.NoError(t, err)
	require.Equal(t, e.Namespace()+"x:schedule-ids", status.Attention[0].Key)
}
