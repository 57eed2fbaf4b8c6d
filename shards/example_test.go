package shards_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
	"github.com/qless/qless-go/shards"
)

// Jobs of one queue are spread over two namespaces, which might be two masters of a cluster. Jobs
// with the same part in braces in their jids stay together, and can depend on one another.
func ExampleNew() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	var clients []*qless.Client
	for _, namespace := range []string{"{mail-0}:ql:", "{mail-1}:ql:"} {
		client, err := qless.New(server.Redis(), &qless.ClientConfig{Namespace: namespace})
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}
	sharded, err := shards.New(shards.ByJID, clients...)
	if err != nil {
		log.Fatal(err)
	}
	queue := sharded.Queue("mail")
	for order := range 100 {
		pick := fmt.Sprintf("{order-%d}-pick", order)
		pack := fmt.Sprintf("{order-%d}-pack", order)
		if _, err := queue.Put(ctx, "Pick", nil, qless.JID(pick)); err != nil {
			log.Fatal(err)
		}
		if _, err := queue.Put(ctx, "Pack", nil, qless.JID(pack), qless.DependsOn{pick}); err != nil {
			log.Fatal(err)
		}
	}

	all := 0
	for _, client := range sharded.Clients() {
		counts, err := client.Queue("mail").Counts(ctx)
		if err != nil {
			log.Fatal(err)
		}
		all += counts.Waiting
		equal := counts.Waiting > 0 && counts.Waiting == counts.Depends
		fmt.Println("as many wait as depend on them:", equal)
	}
	fmt.Println("waiting:", all)
	// Output:
	// as many wait as depend on them: true
	// as many wait as depend on them: true
	// waiting: 100
}
