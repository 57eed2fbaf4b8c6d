package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// Events notify a program of changes of jobs, whichever client makes them.
func ExampleClient_Events() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	events, err := client.Events(ctx)
	if err != nil {
		log.Fatal(err)
	}

	queue := client.Queue("mail")
	if _, err := queue.Put(ctx, "Welcome", nil, qless.JID("welcome-7")); err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	if err := jobs[0].Fail(ctx, "smtp-refused", "no such user"); err != nil {
		log.Fatal(err)
	}
	if err := client.Cancel(ctx, "welcome-7"); err != nil {
		log.Fatal(err)
	}

	for event := range events {
		fmt.Printf("%s %s group=%q\n", event.Kind, event.JID, event.Group)
		if event.Kind == qless.EventCanceled {
			break
		}
	}
	// Output:
	// put welcome-7 group=""
	// failed welcome-7 group="smtp-refused"
	// canceled welcome-7 group=""
}
