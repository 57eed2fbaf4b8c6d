package gearmonkey

import (
	"context"
	"strconv"
)

// A Status says how far a job has come.
type Status string

// The statuses.
const (
	StatusIdle    Status = "idle"    // it waits for a worker
	StatusBusy    Status = "busy"    // a worker has it, or was killed while it had it
	StatusSuccess Status = "success" // it has ended well
	StatusError   Status = "error"   // it has ended with an error
)

// Finished reports whether the status is one of an ended job.
func (s Status) Finished() bool { return s == StatusSuccess || s == StatusError }

// A State is what is known of a job at one moment.
type State struct {
	Function string
	ID       int64
	Status   Status
	Input    []byte
	Output   []byte // what the handler returned, or the text of its error; nil before the end

	// Dividend and Divisor say how much is done of how much there is to do; 0 when the
	// worker did not tell, or told something that is no number.
	Dividend, Divisor float64
}

// Progress returns how much of the job is done, from 0 to 1, as far as its worker told.
func (s *State) Progress() float64 {
	if s.Divisor <= 0 {
		return 0
	}
	return min(max(s.Dividend/s.Divisor, 0), 1)
}

// Err returns a [*JobError] when the job ended with an error, else nil.
func (s *State) Err() error {
	if s.Status != StatusError {
		return nil
	}
	return &JobError{Function: s.Function, ID: s.ID, Message: string(s.Output)}
}

// Get returns the state of a job. It is [ErrNotFound] for a job that never was, or ended
// 25 hours ago. Cost: one command.
func (c *Client) Get(ctx context.Context, fn string, id int64) (*State, error) {
	if err := checkJob("get", fn, id); err != nil {
		return nil, err
	}
	fields, err := c.rdb.HGetAll(ctx, jobKey(fn, id)).Result()
	if err != nil {
		return nil, wrap("get", fn, id, err)
	}
	if len(fields) == 0 {
		return nil, newError(ErrNotFound, "get", fn, id, "")
	}
	return &State{
		Function: fn,
		ID:       id,
		Status:   Status(fields["status"]),
		Input:    bytesOf(fields, "input"),
		Output:   bytesOf(fields, "output"),
		Dividend: numberOf(fields["status:dividend"]),
		Divisor:  numberOf(fields["status:divisor"]),
	}, nil
}

// bytesOf returns a field, nil when there is none.
func bytesOf(fields map[string]string, name string) []byte {
	text, ok := fields[name]
	if !ok {
		return nil
	}
	return []byte(text)
}

// numberOf reads a number, 0 when it is none.
func numberOf(text string) float64 {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number != number {
		return 0
	}
	return number
}
