// Package stacks reports the stack of a running job's handler to a client that asks the worker. The
// question is a message on the channel w:WORKER, like messages about lost locks. The answer is a
// message on x:stack:ID, to which only the client has subscribed. Nothing stays on the server.
package stacks

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/wire"
)

const (
	Event    = "stack"         // of a question
	Patience = 2 * time.Second // for an answer
	maxStack = 16 << 10        // bytes of an answer
	maxDump  = 64 << 20        // bytes of the stacks of all goroutines
	atOnce   = 4               // answers
)

// A Question asks for the stack of a job. The fields are those of other events of the channel.
type Question struct {
	Event wire.Text `json:"event"`
	JID   wire.Text `json:"jid"`
	Reply wire.Text `json:"reply"` // the ID of the answer's channel
}

// An Answer is a stack, or the reason for its absence.
type Answer struct {
	Stack   string `json:"stack,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// A Client is a *qless.Client.
type Client interface {
	Redis() redis.UniversalClient
	Namespace() string
}

// Ask asks the worker of a job for the stack, given the job's state and worker as read.
func Ask(ctx context.Context, c Client, jid, state, worker string) (answer Answer, err error) {
	rdb, prefix := c.Redis(), c.Namespace()
	if state != "running" {
		return Answer{Problem: "the job is " + state}, nil
	}
	reply := uuid.NewString()
	text, _ := json.Marshal(Question{Event, wire.Text(jid), wire.Text(reply)})
	answers := rdb.Subscribe(ctx, channelOf(prefix, reply))
	defer answers.Close()
	if _, err := answers.ReceiveTimeout(ctx, Patience); err != nil {
		return answer, err
	}
	heard, err := rdb.Publish(ctx, prefix+"w:"+worker, text).Result()
	if err != nil {
		return answer, err
	}
	if _, isCluster := rdb.(*redis.ClusterClient); heard == 0 && !isCluster {
		return Answer{Problem: "the worker does not listen: it is away, or no Go worker"}, nil
	}
	select {
	case message := <-answers.Channel():
		err = json.Unmarshal([]byte(message.Payload), &answer)
	case <-time.After(Patience):
		answer.Problem = "the worker has not answered within " + Patience.String() +
			": it is away, or no Go worker that can tell stacks"
	case <-ctx.Done():
		err = ctx.Err()
	}
	return answer, err
}

// Channel begins the channels of answers.
const Channel = "x:stack:"

func channelOf(prefix, reply string) string { return prefix + Channel + reply }

// A Keeper knows the goroutines of a worker's running jobs.
type Keeper struct {
	open    bool
	rdb     redis.UniversalClient
	prefix  string
	answers chan struct{} // has a value for each answer in progress

	mu         sync.Mutex
	goroutines map[string]string // by jid
}

// New returns the keeper of a worker, which reports stacks only if open.
func New(open bool, rdb redis.UniversalClient, prefix string) *Keeper {
	return &Keeper{
		open: open, rdb: rdb, prefix: prefix, answers: make(chan struct{}, atOnce),
		goroutines: map[string]string{},
	}
}

// Begin records that the calling goroutine handles jobs, until end is called.
func (k *Keeper) Begin(jids ...string) (end func()) {
	if !k.open {
		return func() {}
	}
	own, all := current(), slices.Clone(jids)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, jid := range all {
		k.goroutines[jid] = own
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, jid := range all {
			if k.goroutines[jid] == own {
				delete(k.goroutines, jid)
			}
		}
	}
}

// Answer answers a question in the background, or ignores it if too many answers are in progress.
func (k *Keeper) Answer(jid, reply string) {
	select {
	case k.answers <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-k.answers }()
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		text, _ := json.Marshal(k.answer(jid))
		_ = k.rdb.Publish(ctx, channelOf(k.prefix, reply), text).Err() // the asker gives up
	}()
}

func (k *Keeper) answer(jid string) Answer {
	if !k.open {
		return Answer{Problem: "the worker does not tell stacks: its WorkerConfig has no Stacks"}
	}
	k.mu.Lock()
	goroutine, runs := k.goroutines[jid]
	k.mu.Unlock()
	if runs {
		if stack := stackOf(goroutine); stack != "" {
			return Answer{Stack: stack}
		}
	}
	return Answer{Problem: "the worker does not run the job now"}
}

// current returns the number of the calling goroutine.
func current() string {
	head := make([]byte, 64)
	return string(bytes.Fields(head[:runtime.Stack(head, false)])[1])
}

// stackOf returns the stack of a goroutine, innermost calls first, or "" if it has ended.
func stackOf(goroutine string) string {
	all := make([]byte, 1<<20)
	n := runtime.Stack(all, true)
	for n == len(all) && n < maxDump {
		all = make([]byte, 2*n)
		n = runtime.Stack(all, true)
	}
	head := []byte("\n\ngoroutine " + goroutine + " [")
	at := bytes.Index(append([]byte("\n\n"), all[:n]...), head)
	if at < 0 {
		return ""
	}
	stack, _, _ := bytes.Cut(all[at:n], []byte("\n\n"))
	return string(stack[:min(len(stack), maxStack)])
}
