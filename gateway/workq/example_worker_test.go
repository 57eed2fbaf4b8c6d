package workq_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/qlesstest"
)

// A worker in Go runs a job added by a Workq client, and the client receives the result.
func ExampleBody() {
	redis, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	quiet := slog.New(slog.DiscardHandler)
	server, err := workq.New(workq.Config{Client: redis.Client(), Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Shutdown(context.Background()) }()

	worker, err := qless.NewWorker(redis.Client(), qless.WorkerConfig{
		Queues: []string{workq.Queue("shout", 0)}, Logger: quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("shout", qless.TypedResult(
		func(_ context.Context, _ *qless.Job, text workq.Body) (workq.Body, error) {
			return workq.Body{Body: bytes.ToUpper(text.Body)}, nil
		}))
	if err := worker.Start(context.Background()); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = worker.Stop(context.Background()) }()

	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	fmt.Fprint(connection,
		"add 6ba7b810-9dad-41d1-80b4-00c04fd430c4 shout 1000 60000 5\r\nhello\r\n",
		"result 6ba7b810-9dad-41d1-80b4-00c04fd430c4 5000\r\n")
	replies := bufio.NewScanner(connection)
	for range 4 {
		replies.Scan()
		fmt.Println(replies.Text())
	}
	// Output:
	// +OK
	// +OK 1
	// 6ba7b810-9dad-41d1-80b4-00c04fd430c4 1 5
	// HELLO
}
