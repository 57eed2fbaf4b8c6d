package gearmonkey

import (
	"context"
	"strconv"
)

// A Status is the state that a job is in.
type Status string

// The statuses.
const (
	StatusIdle    Status = "idle"    // waits for a worker
	StatusBusy    Status = "busy"    // being run by a worker, or left by a killed worker
	StatusSuccess Status = "success" // ended successfully
	StatusError   Status = "error"   // ended with an error
)

// Finished reports whether s is the status of an ended job.
func (s Status) Finished() bool { return s == StatusSuccess || s == StatusError }

// A State is a snapshot of a job.
type State struct {
	Function string
	ID       int64
	Status   Status
	Input    []byte
	Output   []byte // the handler's output, or the error's text; nil until the job ends

	// Dividend and Divisor are the progress: Dividend out of Divisor is done. Both are 0 if the worker
	// reported none, or not a number.
	Dividend, Divisor float64
}

// Progress returns the completed part of the job, as reported by the worker, from 0 to 1.
func (s *State) Progress() float64 {
	if s.Divisor <= 0 {
		return 0
	}
	return min(max(s.Dividend/s.Divisor, 0), 1)
}

// Err returns a [*JobError] if the job ended with an error, and nil otherwise.
func (s *State) Err() error {
	if s.Status != StatusError {
		return nil
	}
	return &JobError{Function: s.Function, ID: s.ID, Message: string(s.Output)}
}

// Get returns the state of a job, or [ErrNotFound] if the job was never created or ended more than
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

// bytesOf returns a field, or nil if unset.
func bytesOf(fields map[string]string, name string) []byte {
	text, ok := fields[name]
	if !ok {
		return nil
	}
	return []byte(text)
}

// numberOf parses a number. It returns 0 for any other text.
func numberOf(text string) float64 {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number != number {
		return 0
	}
	return number
}
