package events_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/qlesstest"
)

// Events notify a program of changes to jobs by any client.
func ExampleListen() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	heard, err := events.Listen(ctx, client)
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

	for event := range heard {
		fmt.Printf("%s %s group=%q\n", event.Kind, event.JID, event.Group)
		if event.Kind == events.Canceled {
			break
		}
	}
	// Output:
	// put welcome-7 group=""
	// failed welcome-7 group="smtp-refused"
	// canceled welcome-7 group=""
}
