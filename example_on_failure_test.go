package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A report is made of the parts that could be fetched, and lists the missing ones.
func ExampleOnFailure() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	put := func(queue string, options ...qless.PutOption) {
		if _, err := client.Queue(queue).Put(ctx, "K", nil, options...); err != nil {
			log.Fatal(err)
		}
	}
	pop := func(queue string) *qless.Job {
		jobs, err := client.Queue(queue).Pop(ctx, 1)
		if err != nil || len(jobs) == 0 {
			log.Fatal("no job: ", err)
		}
		return jobs[0]
	}

	put("parts", qless.JID("north"))
	put("parts", qless.JID("south"))
	put("reports", qless.JID("report"), qless.DependsOn{"north", "south"}, qless.OnFailureRun)
	if err := pop("parts").Complete(ctx); err != nil {
		log.Fatal(err)
	}
	if err := pop("parts").Fail(ctx, "timeout", "the south did not answer"); err != nil {
		log.Fatal(err)
	}
	report := pop("reports")
	fmt.Println(report.Options.Parents)
	fmt.Println(report.FailedDependencies)
	// Output:
	// [north south]
	// [{south timeout}]
}
