package doctor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
