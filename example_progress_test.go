package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A program waits for a job, and shows how far it is.
func ExampleJob_SetProgress() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"films"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Render", func(ctx context.Context, job *qless.Job) error {
		// Render the film, scene by scene.
		return job.SetProgress(ctx, 12, 12, "the last scene")
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	jid, err := client.Queue("films").Put(ctx, "Render", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)
	if _, err := client.Wait(ctx, jid, qless.OnProgress(func(p qless.Progress) {
		log.Printf("%d of %d: %s", p.Done, p.Total, p.Note)
	})); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Progress.Done, "of", job.Progress.Total, job.Progress.Note)
	// Output:
	// complete 12 of 12 the last scene
}
