package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// options holds the values of the flags.
type options struct {
	workloads, peers, against, classic, lua, redis names

	concurrency, payload, waiting, kept, clients numbers

	rounds, jobs, workers, queues int

	poll, lasting time.Duration

	json, instructions, raw bool
	profile, chart          string
}

// names is a flag holding a comma-separated list.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

func (n *names) Set(text string) error {
	*n = strings.Split(text, ",")
	return nil
}

// numbers is like names, for nonnegative integers.
type numbers []int

func (n *numbers) String() string { return strings.Trim(fmt.Sprint(*n), "[]") }

func (n *numbers) Set(text string) error {
	*n = nil
	for one := range strings.SplitSeq(text, ",") {
		number, err := strconv.ParseUint(one, 10, 31)
		if err != nil {
			return err
		}
		*n = append(*n, int(number))
	}
	return nil
}
