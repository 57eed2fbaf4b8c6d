package guard_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/guard"
)

type fragile struct{ text string }

func (f *fragile) Error() string { return f.text }

func TestTheTextOfAnyError(t *testing.T) {
	require.Equal(t, "text", guard.Text(errors.New("text")))
	require.Contains(t, guard.Text((*fragile)(nil)), "*guard_test.fragile.Error: a function panicked")
}

type panicking struct{ in string }

func (p panicking) Enabled(context.Context, slog.Level) bool {
	if p.in == "Enabled" {
		panic(p.in)
	}
	return true
}

func (p panicking) Handle(context.Context, slog.Record) error { panic(p.in) }

func (p panicking) WithAttrs([]slog.Attr) slog.Handler {
	if p.in == "WithAttrs" {
		panic(p.in)
	}
	return p
}

func (p panicking) WithGroup(string) slog.Handler {
	if p.in == "WithGroup" {
		panic(p.in)
	}
	return p
}

func TestALoggerThatPanicsIsHarmless(t *testing.T) {
	for _, in := range []string{"Enabled", "Handle", "WithAttrs", "WithGroup"} {
		logger := guard.Logger(slog.New(panicking{in}))
		require.Same(t, logger, guard.Logger(logger))
		require.NotPanics(t, func() {
			logger.Info("text")
			logger.With("key", "value").WithGroup("group").Info("text")
		}, in)
	}
}
