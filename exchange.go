package qless

import (
	"context"
	"time"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
)

// An Order is the order of a worker's queues.
type Order string

// The orders of queues.
const (
	// OrderStrict takes all jobs of a queue before any of the next one.
	OrderStrict Order = "strict"

	// OrderRoundRobin takes one job from each queue in turn.
	OrderRoundRobin Order = "round-robin"

	// OrderShuffled takes one job from each queue in turn, in a new random order each time,
	// so that many workers do not all begin with the same queue.
	OrderShuffled Order = "shuffled"
)

// An exchange describes a call of the server that reports outcomes and asks for jobs.
type exchange struct {
	reports  []*report
	progress []*heldProgress
	room     int  // the number of jobs to ask for
	ahead    int  // the number of further jobs, if no idle worker could take them
	leave    bool // no more jobs are wanted: the worker is no longer idle
	done     bool // the worker has stopped, and all outcomes are delivered
}

// wants returns the total number of jobs to ask for.
func (e exchange) wants() int { return e.room + e.ahead }

func (e exchange) hasWork() bool {
	return len(e.reports) > 0 || len(e.progress) > 0 || e.wants() > 0 || e.leave
}

// An exchanger makes exchanges with the server, one at a time. A worker has one, and calls of
// package lease share one. To the server, each is a worker that is idle under the asker's name.
type exchanger struct {
	op     string  // of errors
	client *Client // of the worker for which jobs are locked
	log    *workerLog
	asker  *ask.Asker
	outbox *outbox

	// Set by listen.
	subscriber hub.Subscriber
	channels   []string // the first is the one where it is woken
	relay      *hub.Relay
}

func newExchanger(
	op string, client *Client, log *workerLog, config ask.Config,
	reported func(r *report, action Action, err error),
) *exchanger {
	config.InStep = client.hub.InStep
	asker := ask.New(config)
	return &exchanger{
		op: op, client: client, log: log, asker: asker, outbox: newOutbox(log, asker.Due, reported),
	}
}

// listen subscribes to the channel where the server wakes the exchanger, and to others.
func (x *exchanger) listen(s hub.Subscriber, channels ...string) {
	x.subscriber, x.channels = s, channels
	x.relay = x.client.hub.Join(x.client.hubConfig(), s, channels...)
}

// unlisten ends the subscription. It returns when the server was notified or the context has ended,
// and reports whether another client has to relay.
func (x *exchanger) unlisten(ctx context.Context) (relayed bool) {
	return x.client.hub.Leave(ctx, x.subscriber, x.relay, x.channels...)
}

// depart deregisters the exchanger, which no longer listens. Others then take over the jobs that it
// may have been woken for, and its relaying.
func (x *exchanger) depart(ctx context.Context, relayed bool) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if _, err := x.client.run(ctx, "depart", "", x.asker.Depart(relayed)...); err != nil {
		x.log.cantDeregister(err)
	}
}

// asks reports whether an exchange includes the script reserve.
func (x *exchanger) asks(e exchange) bool {
	return (e.wants() > 0 || e.leave) && x.asker.HasQueues(e.wants())
}

// send makes an exchange, in one round trip. got is nil if it did not ask for jobs, or there was no
// answer to that; failed is then the reason.
func (x *exchanger) send(ctx context.Context, e exchange) (got *reserved, failed error) {
	p := x.client.runner.Pipeline()
	setPlaces(e.reports)
	batches := inBatches(e.reports)
	for _, batch := range batches {
		p.Add("finish", finishArgs(x.client.worker, batch)...)
	}
	asks := x.asks(e)
	if asks {
		p.Add("reserve", x.asker.Ask(e.room, e.ahead)...)
	}
	sent := time.Now()
	x.client.exec(ctx, p)
	others := p.AnyRan()
	for i, batch := range batches {
		reply, err := p.Reply(i)
		if err := x.outbox.answered(batch, reply, err, others); err != nil {
			failed = err
		}
	}
	if asks {
		reply, err := p.Reply(len(batches))
		if got, err = x.read(reply, err, sent); err != nil {
			failed = err
		}
	}
	return got, failed
}

// read reads the reply of the script reserve.
func (x *exchanger) read(reply any, err error, sent time.Time) (got *reserved, _ error) {
	if err == nil {
		got, err = x.client.decodeReserved(reply, sent)
	} else if asked, next := x.asker.Lost(err); asked > 0 {
		x.log.answerLost(asked, next, err)
	}
	if err != nil {
		x.asker.Unanswered()
		return nil, wrap(x.op, "", err)
	}
	x.asker.Answered(&got.Answer, len(got.jobs))
	return got, nil
}

// settle sets when to ask again, once the jobs of an answer are under way.
func (x *exchanger) settle(got *reserved) {
	x.asker.Settle(got.Answer)
	switch {
	case got.Wants() == 0:
	case got.Listens():
		x.relay.Adjust(got.Listeners) // a busy worker can relay too
	default: // if it subscribed before it asked, that was at a former master of a cluster
		x.client.hub.Restart(x.channels[0], got.sent)
	}
}

// failed records a failed exchange and delays the next one. Each kind of failure is logged once
// until an exchange succeeds.
func (x *exchanger) failed(ctx context.Context, err error) {
	switch news := x.asker.Failed(err); {
	case !news || ctx.Err() != nil:
	case redisx.IsAnswer(err):
		x.log.serverRefuses(err)
	default:
		x.log.serverAway(err)
	}
}

// reserved is the answer to a request for jobs.
type reserved struct {
	ask.Answer
	jobs []*Job
	sent time.Time // when the request was
}

// decodeReserved reads the reply of the script reserve to a call sent at a time.
func (c *Client) decodeReserved(reply any, sent time.Time) (*reserved, error) {
	answer, err := ask.Read(reply)
	got := &reserved{Answer: answer, sent: sent, jobs: make([]*Job, len(answer.Items))}
	for i, item := range answer.Items {
		got.jobs[i] = c.decodeReservedJob(calls.FieldsOf(answer.Names, item), sent)
		if got.jobs[i].JID == "" || got.jobs[i].since == "" {
			return nil, unexpected("reserve", item)
		}
	}
	return got, replyError("reserve", err)
}
