package inspect_test

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

// fail puts jobs into queues and fails them.
func fail(ctx context.Context, client *qless.Client, group string, queues ...string) error {
	for i, name := range queues {
		queue := client.Queue(name)
		if _, err := queue.Put(ctx, "Send", nil, qless.JID(fmt.Sprint("job-", i))); err != nil {
			return err
		}
		jobs, err := queue.Pop(ctx, 1)
		if err != nil {
			return err
		}
		if err := jobs[0].Fail(ctx, group, "connection refused"); err != nil {
			return err
		}
	}
	return nil
}

// A selection describes jobs. An iterator reads them.
func ExampleSelection() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, client := context.Background(), server.Client()
	queue := client.Queue("mails")
	for n, klass := range []string{"Welcome", "Invoice", "Welcome"} {
		jid := qless.JID(fmt.Sprint("job-", n))
		if _, err := queue.Put(ctx, klass, nil, jid, qless.Delay(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}
	scheduled := inspect.New(client).Queue("mails", inspect.Scheduled)
	welcome := scheduled.Where(inspect.Filter{Klass: "Welcome"})
	for row, err := range welcome.Each(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row.JID, row.Klass, row.State)
	}
	// Output:
	// job-0 Welcome scheduled
	// job-2 Welcome scheduled
}

// When a service is back, its failed jobs go back into their queues.
func ExampleSelection_Unfail() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, client := context.Background(), server.Client()
	if err := fail(ctx, client, "ConnectionError", "mails", "invoices"); err != nil {
		log.Fatal(err)
	}
	done, err := inspect.New(client).Failed("ConnectionError").AtMost(1000).Unfail(ctx)
	if err != nil {
		log.Fatal(err)
	}
	mails, err := client.Queue("mails").Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Changed, "jobs, of which", mails.Waiting, "in mails")
	// Output:
	// 2 jobs, of which 1 in mails
}

// A repair of many jobs works in steps, reports its progress and can be stopped. The result names
// the jobs left, and the reasons.
func ExampleSelection_OnStep() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, client := context.Background(), server.Client()
	specs := make([]qless.JobSpec, 600)
	for i := range specs {
		specs[i] = qless.NewKlass[any]("Newsletter").Spec(nil, qless.JID(fmt.Sprint("letter-", i)))
	}
	if _, err := client.Queue("mails").PutMany(ctx, specs); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Queue("reports").Put(ctx, "Report", nil, qless.DependsOn{"letter-0"}); err != nil {
		log.Fatal(err)
	}

	waiting := inspect.New(client).Queue("mails", inspect.Waiting).OnStep(func(soFar inspect.Repair) error {
		fmt.Println("canceled so far:", soFar.Changed)
		return nil // an error ends the repair
	})
	done, err := waiting.Cancel(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("left:", done.Unchanged)
	for jid, why := range done.Reasons {
		fmt.Println(jid, errors.Is(why, qless.ErrHasDependents))
	}
	// Output:
	// canceled so far: 99
	// canceled so far: 199
	// canceled so far: 299
	// canceled so far: 399
	// canceled so far: 499
	// canceled so far: 599
	// canceled so far: 599
	// left: 1
	// letter-0 true
}

// Jobs that a filter can't describe are moved in a loop.
func ExampleSelection_Jobs() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx, client := context.Background(), server.Client()
	for size := range 4 {
		if _, err := client.Queue("images").Put(ctx, "Resize", size); err != nil {
			log.Fatal(err)
		}
	}
	for job, err := range inspect.New(client).Queue("images", inspect.Waiting).Jobs(ctx) {
		var size int
		if err == nil {
			err = job.Unmarshal(&size)
		}
		if err == nil && size > 1 {
			err = job.Move(ctx, "large-images")
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	counts, err := client.Queue("large-images").Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("moved:", counts.Waiting)
	// Output:
	// moved: 2
}

// A page of a dashboard shows a part of a list by index.
func ExampleSelection_JIDs() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	queue := client.Queue("mail")
	for i := range 5 {
		if _, err := queue.Put(ctx, "Welcome", i, qless.JID(fmt.Sprint("welcome-", i))); err != nil {
			log.Fatal(err)
		}
	}

	waiting := inspect.New(client).Queue("mail", inspect.Waiting)
	r := inspect.Range{Limit: 2}
	for {
		page, err := waiting.JIDs(ctx, r)
		if err != nil {
			log.Fatal(err)
		}
		if len(page.Items) == 0 {
			break
		}
		jobs, err := client.Jobs(ctx, page.Items...)
		if err != nil {
			log.Fatal(err)
		}
		for _, job := range jobs {
			fmt.Println(job.JID, string(job.Data), "of", page.Total)
		}
		r.Offset += len(page.Items)
	}
	// Output:
	// welcome-0 0 of 5
	// welcome-1 1 of 5
	// welcome-2 2 of 5
	// welcome-3 3 of 5
	// welcome-4 4 of 5
}

// A Limit of -1 means the whole list.
func ExampleRange() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")
	for range 30 {
		if _, err := queue.Put(ctx, "Welcome", nil, qless.Delay(time.Hour)); err != nil {
			log.Fatal(err)
		}
	}

	for _, r := range []inspect.Range{{}, {Offset: 25}, {Limit: 10}, {Limit: -1}} {
		page, err := inspect.New(server.Client()).Queue("mail", inspect.Scheduled).JIDs(ctx, r)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%+v: %d of %d\n", r, len(page.Items), page.Total)
	}
	// Output:
	// {Offset:0 Limit:0}: 25 of 30
	// {Offset:25 Limit:0}: 5 of 30
	// {Offset:0 Limit:10}: 10 of 30
	// {Offset:0 Limit:-1}: 30 of 30
}

// A dashboard shows the number of jobs of each klass in the last hour, and how long they took.
func ExampleInspector_RatesByKlass() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("*", func(context.Context, *qless.Job) error { return nil })
	ctx := context.Background()
	for _, klass := range []string{"Welcome", "Invoice", "Welcome"} {
		if _, err := client.Queue("mail").Put(ctx, klass, nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for worker.Stats().Completed < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := worker.Stop(ctx); err != nil { // sends the counts
		log.Fatal(err)
	}

	now := time.Now()
	groups, err := inspect.New(client).RatesByKlass(ctx, inspect.RateQuery{
		From: now.Add(-time.Hour), To: now, Queue: "mail",
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, klass := range groups {
		log.Printf("%s: half of the jobs ran for less than %v", klass.Name, klass.Run.P50)
		fmt.Println(klass.Name, klass.Completed, "completed,", klass.Failed, "failed")
	}
	// Output:
	// Invoice 1 completed, 0 failed
	// Welcome 2 completed, 0 failed
}

// A running worker is registered with its queues.
func ExampleInspector_Workers() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Name: "mailer", Queues: []string{"mail-*"}, Concurrency: 5,
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Mail::*", func(context.Context, *qless.Job) error { return nil })
	ctx := context.Background()
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	var workers []inspect.WorkerStatus
	for len(workers) == 0 || workers[0].Info == nil { // the worker registers when it starts to run
		if workers, err = inspect.New(client).Workers(ctx); err != nil {
			log.Fatal(err)
		}
	}
	info := workers[0].Info
	fmt.Println(workers[0].Name, info.Language, info.Queues, info.Klasses, info.Slots)
	fmt.Println(info.TakesFrom("mail-slow"), info.TakesFrom("reports"))
	// Output:
	// mailer go [mail-*] [Mail::*] 5
	// true false
}

// The server knows the schedules of all workers. Any client can list them, put a job of one at
// once, and forget a schedule without followers.
func ExampleInspector_Schedules() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"reports"},
		Schedules: []qless.Schedule{{
			ID: "sales", When: "CRON_TZ=Europe/Berlin 30 6 * * 1-5", Queue: "reports",
			Job: qless.JobSpec{Klass: "Report"},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan string, 1)
	worker.Handle("Report", func(ctx context.Context, job *qless.Job) error {
		done <- job.Klass
		return nil
	})
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	var schedules inspect.Page[inspect.ScheduleInfo]
	for len(schedules.Items) == 0 { // until the worker has registered the schedule
		if schedules, err = inspect.New(client).Schedules(ctx, inspect.Range{}); err != nil {
			log.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	for _, s := range schedules.Items {
		fmt.Println(s.ID, "puts", s.Klass, "by the clocks in", s.Zone)
		fmt.Println("workers:", len(s.Followers))
	}

	if _, err := inspect.New(client).RunSchedule(ctx, "sales"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done:", <-done)

	err = inspect.New(client).ForgetSchedule(ctx, "sales")
	fmt.Println("followed:", errors.Is(err, inspect.ErrFollowed))
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("forgotten:", inspect.New(client).ForgetSchedule(ctx, "sales") == nil)
	// Output:
	// sales puts Report by the clocks in Europe/Berlin
	// workers: 1
	// done: Report
	// followed: true
	// forgotten: true
}

// A program sweeps once a second, so that expired jobs take up no memory.
func ExampleInspector_Sweep() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	_, err = client.Queue("mail").Put(ctx, "Welcome", nil, qless.TTL(time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		n, err := inspect.New(client).Sweep(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if n > 0 {
			fmt.Println(n, "deleted")
			break
		}
	}
	// Output:
	// 1 deleted
}
