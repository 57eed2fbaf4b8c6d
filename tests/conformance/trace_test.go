package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A trace is a sequence of commands with their outcomes.
type trace struct {
	Name  string
	PHP   []string // the subjects, if the trace is of qless-php's script
	Free  []string // patterns of keys not compared
	Steps []step
	Keys  keyspace
}

// A step is one command, [name, NOW, argument...], and its outcome.
type step struct {
	Command []string `json:"cmd"`
	outcome
}

// An outcome is the effect of a command as a client sees it.
type outcome struct {
	Reply   any
	Area    string `json:"error"` // empty if there was no error
	Message string
	Events  []event
}

// An event is a channel and its payload.
type event [2]string

// String returns enough of a step's command to recognize the step.
func (s step) String() string {
	const enough = 160
	text := strings.Join(s.Command, " ")
	if len(text) > enough {
		return text[:enough] + "..."
	}
	return text
}

// readTraces reads all traces of the stock script.
func readTraces(t *testing.T) []trace {
	t.Helper()
	return readFile(t, "testdata/fuzz.jsonl.gz")
}

// readFile reads all traces from a file.
func readFile(t *testing.T, name string) []trace {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	text, err := gzip.NewReader(bufio.NewReader(file))
	require.NoError(t, err)
	decoder := json.NewDecoder(text)
	decoder.UseNumber()
	var traces []trace
	for {
		var next trace
		err := decoder.Decode(&next)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		traces = append(traces, next)
	}
	require.NotEmpty(t, traces)
	return traces
}
