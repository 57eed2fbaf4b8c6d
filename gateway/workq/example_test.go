package workq_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"

	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/qlesstest"
)

// A client adds a job to an in-memory server, and leases it.
func Example() {
	redis, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	server, err := workq.New(workq.Config{
		Client: redis.Client(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Shutdown(context.Background()) }()

	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	replies := bufio.NewScanner(connection)
	fmt.Fprint(connection,
		"add 6ba7b810-9dad-41d1-80b4-00c04fd430c4 ping 1000 60000 4\r\npong\r\n",
		"lease ping 5000\r\n")
	for range 4 {
		replies.Scan()
		fmt.Println(replies.Text())
	}
	// Output:
	// +OK
	// +OK 1
	// 6ba7b810-9dad-41d1-80b4-00c04fd430c4 ping 1000 4
	// pong
}
