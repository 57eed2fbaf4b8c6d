package qless

import (
	"context"
	"slices"
)

// AllQueues stands for every known queue in [Client.Sweep].
const AllQueues = "*"

// Sweep clears away what nobody else has come across, and returns how many jobs it has dealt with:
//
//   - jobs whose lives have ended, by [StartBy], [TTL], [KeepFor] or [KeepFailedFor]: at most 100;
//   - failed jobs of any group that exceed [ConfigJobsFailedHistory] or
//     [ConfigJobsFailedHistoryCount];
//   - jobs with an [OnFailure] that wait for one that has failed, if clients of other languages
//     failed it, which tell nobody, or if one call could not tell them all: about 200;
//   - jobs that wait for a complete one which had more than 250 dependents, if the program that
//     completed it ended before it had released them all: at most 250.
//
// For the second and the third, a call looks at about 100 failed jobs, of at most 100 groups, and
// the next call goes on where it stopped. Without anything to do, it costs the server 3 commands. It
// also looks at 100 tracked jobs, and stops tracking those that are gone, which it does not count.
//
// Given names of queues, at most 1000, it also moves at most 100 of their jobs to where a pop would
// find them, so that counts, states and lists are true for those who look: scheduled jobs that are
// due, children of recurring jobs, and jobs whose locks have ended, as [OnLost] says, with the
// usual notice, grace period, and loss of a retry. [AllQueues] stands for all: a call looks at 100
// of them, and the next call at others. A queue costs 3 commands.
//
// A job whose life has ended is never given to a worker, swept or not, and one that is due is found
// by the next pop. A program that relies on the rest, such as on a handler that ends at its TTL,
// calls Sweep from time to time, for instance every second. Several may do so.
func (c *Client) Sweep(ctx context.Context, queues ...string) (int, error) {
	if err := checkSwept(queues); err != nil {
		return 0, err
	}
	reply, err := c.run(ctx, "sweep", "", anys(nil, queues...)...)
	if err != nil {
		return 0, err
	}
	return decodeInt("sweep", reply)
}

func checkSwept(queues []string) error {
	if len(queues) > maxReserve {
		return invalid("sweep", "", "%d queues are more than %d", len(queues), maxReserve)
	}
	if len(queues) > 1 && slices.Contains(queues, AllQueues) {
		return invalid("sweep", "", "AllQueues and names of queues can't be used together")
	}
	for _, queue := range queues {
		if err := checkName("sweep", "queue name", queue); err != nil {
			return err
		}
	}
	return nil
}

// Sweep sweeps all shards, as [Client.Sweep] does, and returns how many jobs it has dealt with. If
// a shard fails, the others are swept.
func (s *Shards) Sweep(ctx context.Context, queues ...string) (int, error) {
	swept, err := ask(s.clients, func(c *Client) (int, error) { return c.Sweep(ctx, queues...) })
	sum := 0
	for _, n := range swept {
		sum += n
	}
	return sum, err
}
