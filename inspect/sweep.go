package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// allQueues stands for every known queue.
const allQueues = "*"

// maxSwept is the maximum number of queues named in a sweep.
const maxSwept = 1000

// Sweep deletes and repairs leftovers of other calls, and returns the number of jobs affected:
//
//   - expired jobs, by [qless.StartBy], [qless.TTL], [qless.KeepFor] or [qless.KeepFailedFor]: at
//     most 100;
//   - failed jobs of any group that exceed jobs-failed-history or jobs-failed-history-count;
//   - jobs with a [qless.OnFailure] and a failed parent that were not notified, because a classic
//     client failed the parent, or because of too many dependents for one call: about 200;
//   - jobs with a complete parent of more than 250 dependents, if the completing program ended
//     before releasing them all: at most 250.
//
// For the second and third, a call examines about 100 failed jobs, of at most 100 groups, and the
// next call continues from there. An idle sweep costs the server 3 commands. A sweep also examines
// 100 tracked jobs, and stops tracking deleted ones without counting them.
//
// Given the names of up to 1000 queues, Sweep also moves up to 100 of their jobs to where a pop
// would find them, so that readers see true counts, states and lists: due jobs, children of
// recurring jobs, and, according to [qless.OnLost], jobs with expired locks, with the usual notice,
// grace period, and loss of a retry. The name "*" stands for all queues: a call examines 100 of
// them, and the next call others. A queue costs 3 commands.
//
// No worker gets an expired job, swept or not, and the next pop finds due jobs. A program that
// relies on the rest, such as on handlers ending at the TTL of their jobs, should call Sweep from
// time to time, for instance every second. Several programs may do so.
func (in *Inspector) Sweep(ctx context.Context, queues ...string) (int, error) {
	const command = "sweep"
	if len(queues) > maxSwept {
		return 0, invalid(command, "%d queues are more than %d", len(queues), maxSwept)
	}
	if len(queues) > 1 && slices.Contains(queues, allQueues) {
		return 0, invalid(command, "\"*\" and names of queues can't be used together")
	}
	args := make([]any, len(queues))
	for i, queue := range queues {
		if err := checkName(command, "queue name", queue); err != nil {
			return 0, err
		}
		args[i] = queue
	}
	reply, err := in.client.Do(ctx, command, args...)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, unexpected(command, reply)
	}
	return int(n), nil
}

// ForgetQueue removes a queue from the list of known queues until a job is put into it. A queue
// with jobs is [qless.ErrInvalid], with their number: workers of a pattern would miss them.
func (in *Inspector) ForgetQueue(ctx context.Context, name string) error {
	const command = "queue.forget"
	if err := checkName(command, "queue name", name); err != nil {
		return err
	}
	_, err := in.client.Do(ctx, command, "", name)
	return err
}

// Holder returns the jid of the holder of the [qless.Unique] key of these parts, or the empty
// string if the key is free. A put with a held key would be refused. A key held by
// [qless.UniqueOption.For] stays held until its time has passed, even if the job is gone.
func (in *Inspector) Holder(ctx context.Context, parts ...any) (string, error) {
	const command = "holder"
	if len(parts) == 0 {
		return "", invalid(command, "the unique key has no parts")
	}
	key, err := jobopts.UniqueKey(parts)
	if err != nil {
		return "", invalid(command, "%s", err)
	}
	reply, err := in.client.Do(ctx, command, key)
	if err != nil || reply == nil {
		return "", err
	}
	jid, ok := reply.(string)
	if !ok {
		return "", unexpected(command, reply)
	}
	return jid, nil
}

// notForgotten are the reasons to leave a job unchanged.
var notForgotten = []qless.Code{
	qless.ErrHasDependents, qless.ErrNotFound, qless.ErrRunning, qless.ErrUnfinished,
}

// Forget deletes the records of completed and failed jobs with their results, history, tags,
// tracking, and places in failure groups. No message is published. Other jobs are left
// ([qless.ErrRunning], [qless.ErrUnfinished]): [Selection.Cancel] deletes them. Failed parents are
// left, too ([qless.ErrHasDependents]). Each job takes a round trip and counts as a step; an ended
// job that has left the list is deleted, too.
func (s Selection) Forget(ctx context.Context) (Repair, error) {
	var done Repair
	jids, err := s.allJIDs(ctx)
	if err != nil {
		return done, err
	}
	for _, jid := range jids {
		err := forget(ctx, s.client, jid)
		var own *qless.Error
		switch {
		case err == nil:
			done.Changed++
		case errors.As(err, &own) && slices.Contains(notForgotten, own.Code):
			done.leave(own)
		default:
			return done, err
		}
		if err := s.stepped(done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// allJIDs returns the jids of the selection.
func (s Selection) allJIDs(ctx context.Context) ([]string, error) {
	if s.list == jidsList && len(s.filters) == 0 {
		return s.jids[:s.cut(len(s.jids))], s.check()
	}
	var jids []string
	for found, err := range s.jidSteps(ctx, 0) {
		if err != nil {
			return nil, err
		}
		jids = append(jids, wire.Strings(found)...)
	}
	return jids, nil
}

// forget deletes an ended job.
func forget(ctx context.Context, client *qless.Client, jid string) error {
	const command = "forget"
	if err := jobopts.CheckJID(jid); err != nil {
		return invalid(command, "%s", err)
	}
	reply, err := inside.Run(ctx, client, command, jid, jid)
	if err != nil {
		return err
	}
	state, ok := reply.(string)
	refused := &qless.Error{Op: command, JID: jid, Message: "the job is " + state}
	switch {
	case reply == nil:
		refused.Code, refused.Message = qless.ErrNotFound, "no such job"
	case !ok:
		return unexpected(command, reply)
	case state == string(qless.StateComplete) || state == string(qless.StateFailed):
		return nil
	case state == string(qless.StateRunning):
		refused.Code = qless.ErrRunning
	default:
		refused.Code = qless.ErrUnfinished
	}
	return refused
}
