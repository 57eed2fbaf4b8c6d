// Package runs holds the counts of job runs reported by workers, in stored form.
package runs

import (
	"strconv"
	"strings"

	"github.com/qless/qless-go/internal/histogram"
	"github.com/qless/qless-go/internal/wire"
)

// A Key identifies runs to count together. The zero value stands for all others.
type Key struct{ Queue, Klass string }

// ParseKey reads the field of a minute: the length of the queue's name, the queue, the klass.
func ParseKey(field string) (key Key, ok bool) {
	length, rest, _ := strings.Cut(field, ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n >= len(rest) || rest[n] != ':' {
		return Key{}, false
	}
	return Key{rest[:n], rest[n+1:]}, true
}

// Counts counts runs.
type Counts struct {
	Completed, Failed, Retried int
	Wait, Run                  histogram.Histogram
}

// Merge adds other counts.
func (c *Counts) Merge(other *Counts) {
	c.Completed += other.Completed
	c.Failed += other.Failed
	c.Retried += other.Retried
	c.Wait.Merge(&other.Wait)
	c.Run.Merge(&other.Run)
}

// Text returns the counts in stored form.
func (c *Counts) Text() string {
	text := make([]byte, 0, 64)
	text = strconv.AppendInt(text, int64(c.Completed), 10)
	text = strconv.AppendInt(append(text, ','), int64(c.Failed), 10)
	text = strconv.AppendInt(append(text, ','), int64(c.Retried), 10)
	text = c.Wait.AppendTo(append(text, '|'))
	return string(c.Run.AppendTo(append(text, '|')))
}

// Read adds counts in stored form, skipping damaged parts.
func (c *Counts) Read(text string) {
	parts := strings.Split(text, "|")
	if len(parts) != 3 {
		return
	}
	numbers := strings.Split(parts[0], ",")
	for i, count := range []*int{&c.Completed, &c.Failed, &c.Retried} {
		if i < len(numbers) {
			*count += wire.AsNumber(numbers[i]).Int()
		}
	}
	c.Wait.Read(parts[1])
	c.Run.Read(parts[2])
}
