package qless_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// textLog returns a logger to the standard output, without what is different in each run.
func textLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "duration", "worker":
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Each run is one line of the log, and a handler has a logger for its job.
func ExampleLogJobs() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ended := make(chan struct{})
	logJobs := qless.LogJobs(textLog())
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"mail"},
		Logger: textLog(),
		Observer: func(event qless.JobEvent) {
			logJobs(event)
			if event.Kind == qless.JobEventEnded {
				close(ended)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		qless.Logger(ctx).Info("sending")
		return qless.FailWith("bad-address", errors.New("no such user"))
	})

	_, err = server.Client().Queue("mail").Put(ctx, "Welcome", nil, qless.JID("welcome-7"))
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-ended
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=INFO msg=sending jid=welcome-7 klass=Welcome queue=mail attempt=1
	// level=ERROR msg="qless: a job has ended" jid=welcome-7 klass=Welcome queue=mail attempt=1 outcome=fail error="no such user"
}
