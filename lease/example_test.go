package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/qlesstest"
)

// A gateway takes a job when a client asks for one.
func ExampleTaker_Take() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	defer client.Close()
	taker := lease.New(client)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		_, err := client.Queue("mail").Put(ctx, "Welcome", map[string]string{"to": "ann"})
		if err != nil {
			log.Print(err)
		}
	}()

	request := lease.Request{Queues: []string{"urgent", "mail"}, LockTime: time.Minute}
	jobs, err := taker.Take(ctx, request) // waits for a job
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", jobs[0].Data)
	fmt.Println(taker.Complete(ctx, "mail", jobs[0].JID))

	request.NoWait = true
	jobs, err = taker.Take(ctx, request)
	fmt.Println(len(jobs), err)
	// Output:
	// {"to":"ann"}
	// [<nil>]
	// 0 <nil>
}

// A program that knows only a job's jid ends the job.
func ExampleTaker_End() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	ctx := context.Background()
	jid, err := client.Queue("mail").Put(ctx, "Welcome", nil)
	if err != nil {
		log.Fatal(err)
	}

	taker := lease.New(client)
	bounced := lease.End{State: qless.StateFailed, Group: "bounced", Message: "no such address"}
	fmt.Println(taker.End(ctx, jid, bounced))
	fmt.Println(errors.Is(taker.End(ctx, jid, bounced), qless.ErrFinished))
	// Output:
	// <nil>
	// true
}
