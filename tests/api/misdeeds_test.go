package api

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// misdeeds are what a user's function may do instead of returning.
var misdeeds = map[string]func(){"panic": func() { panic("a misdeed") }, "goexit": runtime.Goexit}

// An oldCodec decodes by a misdeed.
type oldCodec struct{ misdeed func() }

func (oldCodec) Name() string { return "old" }

func (oldCodec) Encode(_ string, data []byte) ([]byte, string, error) { return data, "", nil }

func (c oldCodec) Decode(string, []byte) ([]byte, error) { c.misdeed(); return nil, nil }

// Where the caller can be told that a function has not returned, that is the error of the call.
func TestAMisdeedInACallIsAnError(t *testing.T) {
	for name, misdeed := range misdeeds {
		e := newEnv(t)
		ctx := t.Context()
		e.NewClient(e.Redis, qless.ClientConfig{Codec: oldCodec{}}).Queue("q").Put(ctx, "K", 1, qless.JID("old"))
		calls := map[string]func() error{
			"ClientConfig.Headers": func() error {
				c := e.NewClient(e.Redis, qless.ClientConfig{
					Headers: func(context.Context) map[string]string { misdeed(); return nil },
				})
				err := errOf(c.Queue("q").Put(ctx, "K", nil))
				requireCode(t, qless.ErrInvalid, err)
				return err
			},
			"ClientConfig.OldCodecs": func() error {
				c := e.NewClient(e.Redis, qless.ClientConfig{OldCodecs: []qless.Codec{oldCodec{misdeed}}})
				job := must(c.Job(ctx, "old"))(t)
				var data int
				return job.Unmarshal(&data)
			},
			"Selection.Apply": func() error {
				return errOf(e.inQueue(inspect.Waiting).Apply(ctx,
					func(context.Context, *qless.Job) error { misdeed(); return nil }))
			},
			"Selection.OnStep": func() error {
				return errOf(e.inQueue(inspect.Waiting).OnStep(
					func(inspect.Repair) error { misdeed(); return nil }).Tag(ctx, "red"))
			},
			"Options.Progress": func() error {
				return errOf(doctor.Examine(ctx, e.Redis, doctor.Options{
					Progress: func(doctor.Progress) { misdeed() },
				}))
			},
			"Options.Clock": func() error {
				return errOf(doctor.Examine(ctx, e.Redis, doctor.Options{
					Clock: func() time.Time { misdeed(); return time.Time{} },
				}))
			},
		}
		for function, call := range calls {
			require.ErrorContains(t, call(), "a function ", "%s: %s", function, name)
		}
		reader := doctor.StatusReader{
			Client: e.Client,
			Rates: func(context.Context) (doctor.QueueRates, error) {
				misdeed()
				return doctor.QueueRates{}, nil
			},
		}
		require.ErrorContains(t, errOf(reader.Read(ctx)), "a function ", "Rates: %s", name)
	}
}

// Where the call is done without the function, the log tells it.
func TestAMisdeedInACallIsLogged(t *testing.T) {
	for _, misdeed := range misdeeds {
		var told bytes.Buffer
		e := newEnvWith(t, qless.ClientConfig{
			Logger: slog.New(slog.NewTextHandler(&told, nil)),
			NextHeaders: func(context.Context, map[string]string) map[string]string {
				misdeed()
				return nil
			},
		})
		t.Cleanup(func() { _ = e.Close() })
		jid := e.Put("q", qless.Headers{"a": "1"})
		require.NoError(t, e.Pop("q").Next(t.Context(), "next"))
		require.Equal(t, qless.Headers{"a": "1"}, e.Read(jid).Headers)
		require.Contains(t, told.String(), "NextHeaders ")

		job := e.Pop("next")
		require.NoError(t, job.SetProgress(t.Context(), 1, 2, ""))
		done := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			_, err := e.Client.Wait(t.Context(), jid, qless.OnProgress(func(qless.Progress) {
				close(begun)
				misdeed()
			}))
			done <- err
		}()
		<-begun
		require.NoError(t, job.Complete(t.Context()))
		require.NoError(t, <-done)
		require.Contains(t, told.String(), "OnProgress ")
	}
}
