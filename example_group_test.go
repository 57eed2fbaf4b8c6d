package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A group works the same queues of several namespaces, here of two tenants.
func ExampleWorkerGroup() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	var clients []*qless.Client
	for _, namespace := range []string{"{acme}:ql:", "{umbrella}:ql:"} {
		client, err := qless.New(server.Redis(), &qless.ClientConfig{Namespace: namespace})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := client.Queue("mail").Put(ctx, "Welcome", nil); err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}

	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	handled := make(chan string)
	group.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		handled <- qless.ClientFromContext(ctx).Namespace()
		return nil
	})
	if err := group.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for range clients {
		fmt.Println("handled a job of", <-handled)
	}
	if err := group.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// handled a job of {acme}:ql:
	// handled a job of {umbrella}:ql:
}
