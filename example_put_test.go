package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// Of the jobs in a queue, those with the highest priority are popped first.
func ExamplePriority() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")

	for klass, priority := range map[string]int{"Newsletter": -5, "Welcome": 0, "PasswordReset": 10} {
		if _, err := queue.Put(ctx, klass, nil, qless.Priority(priority)); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.Priority, job.Klass)
	}
	// Output:
	// 10 PasswordReset
	// 0 Welcome
	// -5 Newsletter
}

// A delayed job is scheduled until it is due. The example uses its own clock, so that it need not
// wait.
func ExampleDelay() {
	ctx := context.Background()
	now := time.Date(2026, time.March, 1, 9, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	config := &qless.ClientConfig{Clock: func() time.Time { return now }}
	client, err := qless.New(server.Redis(), config)
	if err != nil {
		log.Fatal(err)
	}
	queue := client.Queue("mail")

	if _, err := queue.Put(ctx, "Reminder", nil, qless.Delay(time.Hour)); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		jobs, err := queue.Pop(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format(time.TimeOnly), len(jobs), "jobs")
		now = now.Add(time.Hour)
	}
	// Output:
	// 09:00:00 0 jobs
	// 10:00:00 1 jobs
}

// Tags find jobs, whatever queue they are in.
func ExampleTags() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()

	jid, err := client.Queue("mail").Put(ctx, "Welcome", nil, qless.Tags{"customer-7", "welcome"})
	if err != nil {
		log.Fatal(err)
	}
	tagged, err := inspect.New(client).Tagged("customer-7").JIDs(ctx, inspect.Range{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tagged.Total, tagged.Items[0] == jid)
	// Output:
	// 1 true
}

// A job that depends on others can be popped when all of them are complete.
func ExampleDependsOn() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("kitchen")

	var prepared []string
	for _, klass := range []string{"Chop", "Boil"} {
		jid, err := queue.Put(ctx, klass, nil)
		if err != nil {
			log.Fatal(err)
		}
		prepared = append(prepared, jid)
	}
	if _, err := queue.Put(ctx, "Serve", nil, qless.DependsOn(prepared)); err != nil {
		log.Fatal(err)
	}

	for {
		jobs, err := queue.Pop(ctx, 10)
		if err != nil {
			log.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		fmt.Println("popped", len(jobs))
		for _, job := range jobs {
			fmt.Println(" ", job.Klass)
			if err := job.Complete(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// popped 2
	//   Chop
	//   Boil
	// popped 1
	//   Serve
}

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

// An order is charged once, however often it is submitted.
func ExampleIfAbsent() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("payments")

	for range 2 {
		jid, err := queue.Put(context.Background(), "Charge", nil,
			qless.JID("charge-order-7"), qless.IfAbsent)
		switch {
		case errors.Is(err, qless.ErrExists):
			fmt.Println(jid, "is there already")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(jid, "is put")
		}
	}
	// Output:
	// charge-order-7 is put
	// charge-order-7 is there already
}

// A report is not started while one is being made, nor put twice.
func ExampleIfFinished() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	queue := server.Client().Queue("reports")
	put := func() {
		_, err := queue.Put(ctx, "Report", nil, qless.JID("report"), qless.IfFinished)
		fmt.Println(err)
	}

	put()
	put()
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	put()
	if err := jobs[0].Complete(ctx); err != nil {
		log.Fatal(err)
	}
	put()
	// Output:
	// <nil>
	// qless: put report: the job exists and is waiting
	// qless: put report: the job exists and is running
	// <nil>
}

// An account is synchronized by one job at a time, whichever process asks for it.
func ExampleUnique() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	queue := client.Queue("sync")
	put := func() {
		_, err := queue.Put(ctx, "Sync", nil, qless.Unique("sync", 7))
		fmt.Println("refused:", errors.Is(err, qless.ErrExists))
	}

	put()
	put()
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	holder, err := inspect.New(client).Holder(ctx, "sync", 7)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the running job has the key:", holder == jobs[0].JID)
	if err := jobs[0].Complete(ctx); err != nil {
		log.Fatal(err)
	}
	put()
	// Output:
	// refused: false
	// refused: true
	// the running job has the key: true
	// refused: false
}

// A page is indexed when it has not changed for ten seconds, or after a minute of changes.
func ExampleUniqueOption_Replace() {
	now := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	config := &qless.ClientConfig{Clock: func() time.Time { return now }}
	client, err := qless.New(server.Redis(), config)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	queue := client.Queue("pages")
	changed := func(version int) {
		_, err := queue.Put(ctx, "Index", map[string]int{"version": version},
			qless.Unique("index", "/home").Replace().Within(time.Minute),
			qless.Delay(10*time.Second))
		if err != nil {
			log.Fatal(err)
		}
	}

	for version := range 5 {
		changed(version)
		now = now.Add(5 * time.Second)
	}
	now = now.Add(5 * time.Second)
	jobs, err := queue.Pop(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.Klass, string(job.Data))
	}

	changed(5) // while the job runs
	counts, err := queue.Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("running:", counts.Running, "waiting for it:", counts.Depends)
	// Output:
	// Index {"version":4}
	// running: 1 waiting for it: 1
}

// A customer with few jobs does not wait for all the jobs of another one.
func ExampleFair() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	queue := server.Client().Queue("imports")
	for _, customer := range []string{"large", "large", "large", "large", "small"} {
		if _, err := queue.Put(ctx, customer, nil, qless.Fair(customer)); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	served := map[string]bool{}
	for _, job := range jobs {
		served[job.Options.Fair] = true
	}
	fmt.Println(len(served), "customers were served")
	// Output:
	// 2 customers were served
}

// One job of each shop runs at a time.
func ExampleLimits() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	err = client.Limit("shop").Set(ctx, qless.LimitConfig{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	queue := client.Queue("sync")
	for _, shop := range []string{"a", "a", "b"} {
		if _, err := queue.Put(ctx, "Sync", nil, qless.Limits{"shop/" + shop}); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.Options.Limits)
	}
	info, err := inspect.New(client).Limit(ctx, "shop/a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(info.Running), "runs,", info.Parked, "waits")
	// Output:
	// [shop/a]
	// [shop/b]
	// 1 runs, 1 waits
}

// A quote is useless to a customer who has waited for ten seconds.
func ExampleStartBy() {
	now := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	config := &qless.ClientConfig{Clock: func() time.Time { return now }}
	client, err := qless.New(server.Redis(), config)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	queue := client.Queue("quotes")
	for _, customer := range []string{"Ada", "Grace"} {
		_, err := queue.Put(ctx, "Quote", customer, qless.StartBy(10*time.Second))
		if err != nil {
			log.Fatal(err)
		}
		now = now.Add(8 * time.Second)
	}
	jobs, err := queue.Pop(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Printf("%s\n", job.Data)
	}
	stats, err := queue.Stats(ctx, now)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Expired, "expired")
	// Output:
	// "Grace"
	// 1 expired
}
