package redisx

import (
	"context"
	"fmt"
	"log/slog"
)

// Text returns the text of an error made by a user's code. Its Error method may panic: that of a
// nil pointer often does.
func Text(err error) (text string) {
	defer func() {
		if value := recover(); value != nil {
			text = fmt.Sprintf("%T: its Error method panicked: %v", err, value)
		}
	}()
	return err.Error()
}

// SafeLogger returns a logger whose handler, a user's, may panic: only the record is lost then.
func SafeLogger(logger *slog.Logger) *slog.Logger {
	if _, safe := logger.Handler().(safeHandler); safe {
		return logger
	}
	return slog.New(safeHandler{logger.Handler()})
}

type safeHandler struct{ slog.Handler }

func (h safeHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

func (h safeHandler) Handle(ctx context.Context, record slog.Record) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the log handler panicked: %v", value)
		}
	}()
	return h.Handler.Handle(ctx, record)
}

// WithAttrs returns the handler without the attributes if the user's panics.
func (h safeHandler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return safeHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns the handler without the group if the user's panics.
func (h safeHandler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer func() { _ = recover() }()
	return safeHandler{h.Handler.WithGroup(name)}
}
