package doctor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/qlesstest"
)

// A queue has jobs, and no workers.
func ExampleExplain() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	queue := server.Client().Queue("mail")
	if _, err := queue.Put(ctx, "Welcome", nil); err != nil {
		log.Fatal(err)
	}
	if err := queue.Pause(ctx); err != nil {
		log.Fatal(err)
	}
	found, err := doctor.Explain(ctx, server.Client(), "mail")
	if err != nil {
		log.Fatal(err)
	}
	for _, cause := range found.Causes {
		fmt.Printf("%s: %s\n", cause.Code, cause.Sentence)
	}
	// Output:
	// paused: The queue is paused: workers get no jobs until it is resumed.
	// no_workers: No known worker takes jobs from the queue.
}

// A key was deleted by hand.
func ExampleExamine() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	rdb := server.Redis()
	if _, err := server.Client().Queue("mail").Put(ctx, "Welcome", nil, qless.JID("job-1")); err != nil {
		log.Fatal(err)
	}
	if err := rdb.Del(ctx, "ql:q:mail-work").Err(); err != nil {
		log.Fatal(err)
	}
	report, err := doctor.Examine(ctx, rdb, doctor.Options{})
	if err != nil {
		log.Fatal(err)
	}
	broken := report.With(doctor.Broken)
	for _, finding := range broken {
		fmt.Println(finding.Sentence)
	}
	fixed, err := doctor.Fix(ctx, rdb, doctor.Options{}, broken...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(fixed), "was repaired")
	// Output:
	// By its record, the job job-1 belongs in ql:q:mail-work, but it is not there.
	// 1 was repaired
}
