package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/qless/qless-go"
)

// putting describes the jobs put by a process other than a worker.
type putting struct {
	From, To, Step int
	Every          time.Duration // the interval between puts
	Micros         int           // the duration of a usual job
	Options        bool          // jobs have options of all kinds
}

// each calls put for each job, at its time. A process that replaces a killed process skips existing
// jobs.
func (p *putting) each(ctx context.Context, put func(i int, jid string, task work) error) error {
	ticker := time.NewTicker(p.Every)
	defer ticker.Stop()
	for i := p.From; i < p.To; i += p.Step {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if err := put(i, fmt.Sprintf("job-%d", i), work{Micros: 1 + i*7919%p.Micros}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// put puts the jobs of a process.
func (s settings) put(ctx context.Context, client *qless.Client) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(record{Kind: ready, Worker: client.WorkerName()}); err != nil {
		return err
	}
	return s.Putting.each(ctx, func(i int, jid string, task work) error {
		options := []qless.PutOption{qless.JID(jid), qless.Retries(jobRetries), qless.IfAbsent}
		if s.Putting.Options {
			options = append(options, newer[i/s.Putting.Step%len(newer)](i)...)
		}
		_, err := client.Queue(s.Queue).Put(context.WithoutCancel(ctx), "Work", task, options...)
		if errors.Is(err, qless.ErrExists) {
			return nil
		}
		return err
	})
}

// newer are options unknown to the previous release.
var newer = []func(i int) []qless.PutOption{
	func(int) []qless.PutOption { return nil },
	func(int) []qless.PutOption { return []qless.PutOption{qless.Headers{"a": "b"}} },
	func(int) []qless.PutOption {
		return []qless.PutOption{qless.LockTime(lockTime), qless.OnLostLast}
	},
	func(int) []qless.PutOption { return []qless.PutOption{qless.TTL(time.Hour)} },
	func(i int) []qless.PutOption { return []qless.PutOption{qless.Unique("key", i)} },
	func(i int) []qless.PutOption { return []qless.PutOption{qless.Fair(fmt.Sprint(i % 50))} },
	func(i int) []qless.PutOption { return []qless.PutOption{qless.Limits{"a", "b"}} },
	func(i int) []qless.PutOption {
		return []qless.PutOption{qless.Unique("late", i).For(time.Second), qless.KeepFor(time.Hour)}
	},
}
