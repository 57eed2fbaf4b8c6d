package qless_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestDurationsOfStructsAreTextsInJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	keep, ever := time.Hour, time.Duration(qless.Forever)
	for _, c := range []struct {
		value any
		want  string
	}{
		{qless.JobOptions{
			KeepFailedFor: &ever, KeepFor: &keep, Limits: qless.Limits{"<l>"},
			LockTime: 90 * time.Second, MaxRunTime: time.Minute, OnFailure: qless.OnFailureRun,
			OnLost: qless.OnLostLast, Parents: []string{"p"}, StartBy: at, Fair: "ann", TTL: at,
			Unique: &qless.UniqueClaim{Key: "k", UntilStarted: true, For: time.Hour}, Weight: 2,
		}, `{"fair":"ann","limits":["\u003cl\u003e"],"on_failure":"run",` +
			`"on_lost":"last","parents":["p"],"start_by":"2026-01-02T03:04:05Z",` +
			`"ttl":"2026-01-02T03:04:05Z","weight":2,"keep_failed_for":"forever","keep_for":"1h","lock_time":"1m30s",` +
			`"max_run_time":"1m","unique":{"key":"k","until_started":true,"for":"1h"}}`},
		{qless.JobOptions{}, `{}`},
		{qless.Attempt{
			What: "retried", Began: at, Ran: time.Second, Delay: time.Minute, Worker: "w", Queue: "q",
			Group: "g", Message: "m",
		}, `{"what":"retried","began":"2026-01-02T03:04:05Z","worker":"w","queue":"q","group":"g",` +
			`"message":"m","ran":"1s","delay":"1m"}`},
		{qless.Attempt{}, `{"what":"","ran":"0s"}`},
		{qless.LimitConfig{Concurrency: 1, Per: time.Hour, Rate: 2},
			`{"concurrency":1,"rate":2,"per":"1h"}`},
		{qless.LimitConfig{Concurrency: 1}, `{"concurrency":1}`},
		{qless.QueueSettings{
			Heartbeat: time.Minute, MaxConcurrency: 2, MaxRate: 3, Per: time.Hour, NextStart: at,
		}, `{"max_concurrency":2,"max_rate":3,"next_start":"2026-01-02T03:04:05Z",` +
			`"heartbeat":"1m","per":"1h"}`},
		{qless.RecurringJob{Interval: time.Hour, JID: "j", Klass: "K", Data: json.RawMessage("1")},
			`{"backlog":0,"count":0,"data":1,"jid":"j","klass":"K","priority":0,"queue":"",` +
				`"retries":0,"interval":"1h"}`},
	} {
		raw, err := json.Marshal(c.value)
		require.NoError(t, err)
		require.Equal(t, c.want, string(raw))
		read := reflect.New(reflect.TypeOf(c.value))
		require.NoError(t, json.Unmarshal(raw, read.Interface()))
		require.Equal(t, c.value, read.Elem().Interface())
	}
}
