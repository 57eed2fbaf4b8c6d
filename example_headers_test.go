package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// traceKey is the key of a trace in a context.
type traceKey struct{}

// The trace in which a job was put continues where the job runs.
func ExampleClientConfig_headers() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Headers: func(ctx context.Context) map[string]string {
		trace, ok := ctx.Value(traceKey{}).(string)
		if !ok {
			return nil
		}
		return map[string]string{"traceparent": trace}
	}})
	if err != nil {
		log.Fatal(err)
	}
	queue := client.Queue("mail")

	ctx := context.WithValue(context.Background(), traceKey{}, "00-4bf9-00f0-01")
	if _, err := queue.Put(ctx, "Welcome", nil, qless.Headers{"tenant": "7"}); err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(jobs[0].Headers["traceparent"])
	fmt.Println(jobs[0].Headers["tenant"])
	// Output:
	// 00-4bf9-00f0-01
	// 7
}
