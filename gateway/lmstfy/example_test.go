package lmstfy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/qlesstest"
)

// A job is published and consumed over HTTP, with an in-memory Redis.
func Example() {
	memory, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer memory.Close()
	server, err := lmstfy.New(lmstfy.Config{
		Pools:      map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: memory.Client()}},
		Admin:      memory.Redis(),
		SkipTokens: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Shutdown(context.Background()) }()
	api := httptest.NewServer(server.Handler())
	defer api.Close()

	ask := func(method, path, body string) string {
		r, err := http.NewRequest(method, api.URL+path, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			log.Fatal(err)
		}
		return string(text)
	}
	ask("PUT", "/api/shop/mail?tries=3", "welcome ann")
	fmt.Println(ask("GET", "/api/shop/mail/size", ""))
	counts, err := memory.Client().Queue("shop/mail").Counts(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(counts.Waiting, "waits in the queue", counts.Name)
	// Output:
	// {"namespace":"shop","queue":"mail","size":1}
	// 1 waits in the queue shop/mail
}
