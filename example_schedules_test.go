package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// The schedules of all workers are known to the server. Any client can list them, put a job of one
// at once, and forget one that no worker has any more.
func ExampleClient_Schedules() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"reports"},
		Schedules: []qless.Schedule{{
			ID: "sales", Spec: "CRON_TZ=Europe/Berlin 30 6 * * 1-5", Queue: "reports", Klass: "Report",
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan string, 1)
	worker.Handle("Report", func(ctx context.Context, job *qless.Job) error {
		done <- job.Klass
		return nil
	})
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	var schedules qless.Page[qless.ScheduleInfo]
	for len(schedules.Items) == 0 { // until the worker has registered it
		if schedules, err = client.Schedules(ctx, qless.Range{}); err != nil {
			log.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	for _, s := range schedules.Items {
		fmt.Println(s.ID, "puts", s.Klass, "by the clocks in", s.Zone)
		fmt.Println("workers:", len(s.Followers))
	}

	if _, err := client.RunSchedule(ctx, "sales"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done:", <-done)

	err = client.ForgetSchedule(ctx, "sales")
	fmt.Println("followed:", errors.Is(err, qless.ErrFollowed))
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("forgotten:", client.ForgetSchedule(ctx, "sales") == nil)
	// Output:
	// sales puts Report by the clocks in Europe/Berlin
	// workers: 1
	// done: Report
	// followed: true
	// forgotten: true
}
