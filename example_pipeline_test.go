package qless_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/qless/qless-go/qlesstest"
)

// A job goes through several queues. It stays the same job: its jid, its data and its history go
// along.
func ExampleJob_Next() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	resize, upload := client.Queue("resize"), client.Queue("upload")

	type image struct {
		Name  string `json:"name"`
		Width int    `json:"width"`
	}
	jid, err := resize.Put(ctx, "Image", image{Name: "cat.png", Width: 4000})
	if err != nil {
		log.Fatal(err)
	}

	// One worker resizes the image, and hands on what it made of it.
	jobs, err := resize.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		if err := job.SetData(image{Name: "cat.png", Width: 800}); err != nil {
			log.Fatal(err)
		}
		if err := job.Next(ctx, upload.Name()); err != nil {
			log.Fatal(err)
		}
		if err := job.Refresh(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.State, "in", job.Queue)
	}

	// Another one uploads it.
	jobs, err = upload.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println("uploading", string(job.Data))
		if err := job.Complete(ctx); err != nil {
			log.Fatal(err)
		}
	}

	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	var steps []string
	for _, entry := range job.History {
		steps = append(steps, strings.TrimSpace(entry.What+" "+entry.Queue))
	}
	fmt.Println(strings.Join(steps, ", "))
	// Output:
	// waiting in upload
	// uploading {"name":"cat.png","width":800}
	// put resize, popped, done, put upload, popped, done
}
