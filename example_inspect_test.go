package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A dashboard shows what waits for its time, and looks for jobs by klass.
func ExampleQueue_Find() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	queue := server.Client().Queue("mails")
	for n, klass := range []string{"Welcome", "Invoice", "Welcome"} {
		jid := qless.JID(fmt.Sprint("job-", n))
		if _, err := queue.Put(ctx, klass, nil, jid, qless.Delay(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}
	filter := qless.Filter{Klass: "Welcome"}
	for after, more := qless.Cursor(""), true; more; more = after != "" {
		found, err := queue.Find(ctx, qless.ListScheduled, filter, after)
		if err != nil {
			log.Fatal(err)
		}
		for _, job := range found.Items {
			fmt.Println(job.JID, job.Klass, job.State)
		}
		after = found.Next
	}
	// Output:
	// job-0 Welcome scheduled
	// job-2 Welcome scheduled
}

// When a service is back, the jobs that failed without it are retried.
func ExampleClient_Retry() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	for _, name := range []string{"mails", "invoices"} {
		if _, err := client.Queue(name).Put(ctx, "Send", nil); err != nil {
			log.Fatal(err)
		}
		jobs, err := client.Queue(name).Pop(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		if err := jobs[0].Fail(ctx, "ConnectionError", "refused"); err != nil {
			log.Fatal(err)
		}
	}
	done, err := client.Retry(ctx, "ConnectionError", -1)
	if err != nil {
		log.Fatal(err)
	}
	mails, err := client.Queue("mails").Counts(ctx, qless.IncludeLatency)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Count, "jobs were retried,", mails.Waiting, "of them in mails")
	// Output:
	// 2 jobs were retried, 1 of them in mails
}
