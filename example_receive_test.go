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

// A program that is its own worker takes jobs when it is asked for one.
func ExampleClient_Receive() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		if _, err := client.Queue("mail").Put(ctx, "Welcome", map[string]string{"to": "ann"}); err != nil {
			log.Print(err)
		}
	}()

	config := qless.ReceiveConfig{Queues: []string{"urgent", "mail"}, LockTime: time.Minute}
	jobs, err := client.Receive(ctx, config) // waits for a job
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", jobs[0].Data)
	if err := jobs[0].Complete(ctx); err != nil {
		log.Fatal(err)
	}

	config.NoWait = true
	jobs, err = client.Receive(ctx, config)
	fmt.Println(len(jobs), err)
	// Output:
	// {"to":"ann"}
	// 0 <nil>
}

// A job is ended by a program that knows only its jid.
func ExampleClient_End() {
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

	bounced := qless.End{State: qless.StateFailed, Group: "bounced", Message: "no such address", TryAgain: 2}
	for range 3 {
		state, err := client.End(ctx, jid, bounced)
		fmt.Println(state, errors.Is(err, qless.ErrFinished))
	}
	fmt.Println(client.Forget(ctx, jid))
	// Output:
	// waiting false
	// failed false
	//  true
	// <nil>
}
