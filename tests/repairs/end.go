package repairs

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
)

// An Ending describes how End ends a job: like package lease or, with a TryAgain, like the gateway
// to Workq when it fails a job.
type Ending struct {
	Group    string
	Message  string
	Result   any
	State    qless.State
	TryAgain int // the number of such calls until the job ends
}

// End ends a job, and returns its state.
func End(
	ctx context.Context, client *qless.Client, jid string, end Ending,
) (qless.State, error) {
	if end.TryAgain == 0 {
		err := lease.New(client).End(ctx, jid, lease.End{
			Group: end.Group, Message: end.Message, Result: end.Result, State: end.State,
		})
		if err != nil {
			return "", err
		}
		if end.State == "" {
			return qless.StateComplete, nil
		}
		return end.State, nil
	}
	state := end.State
	if state == "" {
		state = qless.StateComplete
	}
	args := []any{jid, string(state), end.Group, end.Message, end.TryAgain}
	if end.Result != nil {
		text, err := json.Marshal(end.Result)
		if err != nil {
			return "", err
		}
		args = append(args, string(text))
	}
	reply, err := client.Do(ctx, "end", args...)
	text, _ := reply.(string)
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", &qless.Error{Op: "end", Code: qless.ErrNotFound, JID: jid, Message: "no such job"}
	case text[0] == '!':
		return "", &qless.Error{Op: "end", Code: qless.ErrFinished, JID: jid, Message: text}
	}
	return qless.State(strings.TrimSuffix(text, "+")), nil
}
