package guard

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// Logger returns a logger that calls a user's handler by a [Guard]: if the handler does not return,
// only the record is lost. The first loss is reported on the standard error.
func Logger(logger *slog.Logger) *slog.Logger {
	if _, safe := logger.Handler().(safeHandler); safe {
		return logger
	}
	return slog.New(safeHandler{logger.Handler(), &Guard{
		what: "the handler of Logger", patience: patience, tell: tellOnce(),
	}})
}

// tellOnce returns a function that writes the first message to the standard error.
func tellOnce() func(message string, args ...any) {
	var once sync.Once
	return func(message string, args ...any) {
		once.Do(func() { fmt.Fprintln(os.Stderr, append([]any{message + ":"}, args...)...) })
	}
}

type safeHandler struct {
	slog.Handler
	guard *Guard
}

func (h safeHandler) Enabled(ctx context.Context, level slog.Level) bool {
	enabled, _ := Value(h.guard.Call, func() bool { return h.Handler.Enabled(ctx, level) })
	return enabled
}

func (h safeHandler) Handle(ctx context.Context, record slog.Record) error {
	handled, err := Value(h.guard.Call, func() error { return h.Handler.Handle(ctx, record) })
	if err != nil {
		return err
	}
	return handled
}

// WithAttrs returns the handler without the attributes if the user's handler does not return one.
func (h safeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithAttrs(attrs) })
}

// WithGroup returns the handler without the group if the user's handler does not return one.
func (h safeHandler) WithGroup(name string) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithGroup(name) })
}

func (h safeHandler) with(changed func() slog.Handler) slog.Handler {
	other, err := Value(h.guard.Call, changed)
	if err != nil {
		return h
	}
	return safeHandler{other, h.guard}
}
