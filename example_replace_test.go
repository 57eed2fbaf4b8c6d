package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A page is indexed when it has not changed for ten seconds, or after a minute of changes.
func ExampleUniqueOption_Replace() {
	now := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	queue := client.Queue("pages")
	changed := func(version int) {
		_, err := queue.Put(ctx, "Index", map[string]int{"version": version},
			qless.Unique("index", "/home").Replace().Within(time.Minute),
			qless.Delay(10*time.Second))
		if err != nil {
			log.Fatal(err)
		}
	}

	for version := range 5 {
		changed(version)
		now = now.Add(5 * time.Second)
	}
	now = now.Add(5 * time.Second)
	jobs, err := queue.Pop(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.Klass, string(job.Data))
	}

	changed(5) // while the job runs
	counts, err := queue.Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("running:", counts.Running, "waiting for it:", counts.Depends)
	// Output:
	// Index {"version":4}
	// running: 1 waiting for it: 1
}
