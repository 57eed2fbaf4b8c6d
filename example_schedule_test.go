package qless_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A schedule puts a job at each of its times while a worker runs, such as at 6:30 on weekdays:
// "CRON_TZ=Europe/Berlin 30 6 * * 1-5". Here it is every second, so that the example is short.
func ExampleSchedule() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"reports"},
		Schedules: []qless.Schedule{{
			ID:     "sales",
			Spec:   "@every 1s",
			Queue:  "reports",
			Klass:  "Report",
			Data:   "sales",
			Missed: qless.MissedSkip,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	jids := make(chan string, 100) // more than will be due before the worker has stopped
	worker.Handle("Report", func(ctx context.Context, job *qless.Job) error {
		jids <- job.JID
		return nil
	})
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	id, _, _ := strings.Cut(<-jids, "@") // the rest is the time
	fmt.Println("due:", id)
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// due: sales
}
