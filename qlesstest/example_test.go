package qlesstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// t stands for the *testing.T of a test: an example has none.
var t testing.TB = exampleT{}

type exampleT struct{ testing.TB }

func (exampleT) Cleanup(func())           {}
func (exampleT) Context() context.Context { return context.Background() }
func (exampleT) Helper()                  {}

// The klasses of the worker tested by the examples.
var (
	welcome    = qless.NewKlass[string]("Welcome", qless.Priority(5))
	reminder   = qless.NewKlass[string]("Reminder")
	newsletter = qless.NewKlass[struct{}]("Newsletter")
)

// mailWorker returns the worker tested by the examples.
func mailWorker(client *qless.Client, schedules ...qless.Schedule) *qless.Worker {
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"mail"}, Schedules: schedules,
	})
	if err != nil {
		panic(err)
	}
	welcome.Handle(worker, func(ctx context.Context, _ *qless.Job, to string) error {
		if to == "" {
			return qless.FailWith("bad-address", errors.New("nobody to mail"))
		}
		fmt.Println("welcome", to)
		queue := qless.ClientFromContext(ctx).Queue("mail")
		_, err := reminder.Put(ctx, queue, to, qless.Delay(24*time.Hour))
		return err
	})
	reminder.Handle(worker, func(_ context.Context, _ *qless.Job, to string) error {
		fmt.Println("a reminder for", to)
		return nil
	})
	newsletter.Handle(worker, func(context.Context, *qless.Job, struct{}) error {
		fmt.Println("news")
		return nil
	})
	return worker
}

func ExampleDrain() {
	server := qlesstest.New(t)
	client := server.Client()
	_, _ = welcome.Put(t.Context(), client.Queue("mail"), "ann")

	worker := mailWorker(client)
	qlesstest.Drain(t, worker)
	fmt.Println("a day later")
	server.Clock().Advance(24 * time.Hour)
	qlesstest.Drain(t, worker)
	// Output:
	// welcome ann
	// a day later
	// a reminder for ann
}

func ExampleDrain_schedule() {
	server := qlesstest.New(t)
	worker := mailWorker(server.Client(), qless.Schedule{
		ID: "news", When: "0 * * * *", Queue: "mail", Job: newsletter.Spec(struct{}{}),
	})
	qlesstest.Drain(t, worker)
	fmt.Println("an hour later")
	server.Clock().Advance(time.Hour)
	qlesstest.Drain(t, worker)
	// Output:
	// an hour later
	// news
}

func ExampleWork() {
	worker := mailWorker(qlesstest.New(t).Client())
	job := qlesstest.JobOf(t, welcome, "")
	outcome := qlesstest.Work(t, worker, job)
	fmt.Println(outcome.Action, outcome.Group, outcome.Err)
	// Output: fail bad-address nobody to mail
}

func ExampleRequirePutOf() {
	client := qlesstest.New(t).Client()
	_, _ = welcome.Put(t.Context(), client.Queue("mail"), "ann")

	job, to := qlesstest.RequirePutOf(t, client, "mail", welcome)
	fmt.Println(job.State, job.Priority, to)
	// Output: waiting 5 ann
}

func ExampleJob() {
	job := qlesstest.Job(t, "Welcome", "ann")
	fmt.Println(job.State, job.Attempt, string(job.Data))
	fmt.Println(job.Log(t.Context(), "half done", nil), job.Complete(t.Context()))
	// Output:
	// running 1 "ann"
	// <nil> <nil>
}
