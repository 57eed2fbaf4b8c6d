package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A job is put by one program and worked by another. Here both are one, and the server is
// in memory: with a real one, Dial takes the place of Start.
func Example() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	mail := server.Client().Queue("mail")

	type message struct {
		To string `json:"to"`
	}
	welcome := qless.NewKlass[message]("Welcome") // in a program, a package variable
	if _, err := welcome.Put(ctx, mail, message{To: "ann@example.com"}); err != nil {
		log.Fatal(err)
	}

	jobs, err := mail.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		data, err := welcome.Data(job)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.Klass, data.To)
		if err := job.Complete(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// Welcome ann@example.com
}

// Every error is of one type and has a code, which errors.Is compares.
func ExampleError() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	_, err = server.Client().Job(ctx, "no-such-jid")
	fmt.Println(errors.Is(err, qless.ErrNotFound))
	fmt.Println(err)
	// Output:
	// true
	// qless: get no-such-jid: no such job
}

// A job runs in the trace in which it was put.
func ExampleClientConfig_headers() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	type traceKey struct{}
	headers := func(ctx context.Context) map[string]string {
		trace, ok := ctx.Value(traceKey{}).(string)
		if !ok {
			return nil
		}
		return map[string]string{"traceparent": trace}
	}
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Headers: headers})
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
