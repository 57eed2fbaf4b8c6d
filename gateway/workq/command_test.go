package workq

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// readAll reads commands until no more can be read, and returns the commands and failures.
func readAll(r io.Reader) (read []command, failures []error) {
	in := bufio.NewReaderSize(r, bufferSize)
	for {
		c, err := readCommand(in)
		read, failures = append(read, c), append(failures, err)
		var refused refusal
		if err != nil && !errors.As(err, &refused) {
			return read, failures
		}
	}
}

func FuzzCommands(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) {
		whole, failures := readAll(bytes.NewReader(input))
		for i, c := range whole {
			if failures[i] != nil {
				continue
			}
			form := forms[c.name]
			require.NotZero(t, form)
			require.LessOrEqual(t, len(c.flags), form.flags)
			require.LessOrEqual(t, len(c.payload), maxPayload)
			require.NotContains(t, c.args, "")
			checkParsers(&c)
		}
		_, split := readAll(iotest.OneByteReader(bytes.NewReader(input)))
		require.Equal(t, untilWrongSize(failures), untilWrongSize(split))
	})
}

// untilWrongSize returns the failures up to the first payload of a wrong size: the rest of that
// payload depends on how much has arrived.
func untilWrongSize(failures []error) []error {
	for i, err := range failures {
		if err == errPayloadSize || err == errResultSize {
			return failures[:i+1]
		}
	}
	return failures
}

// checkParsers passes a command to the parsers of values, which must not panic.
func checkParsers(c *command) {
	switch c.name {
	case "add", "schedule":
		_, _ = parseAdd(c)
	case "run":
		_, _, _ = parseRun(c)
	case "inspect":
	default:
		_, _ = parseJobID(c.args[0])
	}
}

func FuzzID(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseID(text)
		if err != nil {
			require.Equal(t, errID, err)
			return
		}
		again, err := parseID(u.String())
		require.NoError(t, err)
		require.Equal(t, u, again)
	})
}

func TestAFrameMayArriveInAnyPieces(t *testing.T) {
	frame := "add a b 1 1 4030\r\n" + strings.Repeat("x", 4030) + "\r\n"
	for pad := range 60 { // put the line's end on either side of the buffer's end
		text := strings.Replace(frame, "a b", strings.Repeat("a", pad+1)+" b", 1)
		for _, r := range []io.Reader{
			strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)),
			iotest.HalfReader(strings.NewReader(text)),
		} {
			read, failures := readAll(r)
			require.NoError(t, failures[0])
			require.Len(t, read[0].payload, 4030)
			require.Equal(t, io.EOF, failures[1])
		}
	}
}

// A flag may take the place of the name, too: it is checked before the name.
func TestFlagsInThePlaceOfTheName(t *testing.T) {
	for line, want := range map[string]error{
		"-=\r\n": errFlags, "-=1\r\n": errFlags, "-a=\r\n": errFlags, "-a=1 x -a=2\r\n": errFlags,
		"-a=1\r\n": errUnknown, "-a=1 add\r\n": errUnknown, " -a=1 add\r\n": errUnknown,
		"-\r\n": errUnknown, "=\r\n": errUnknown, "foo -=1\r\n": errFlags,
	} {
		_, failures := readAll(strings.NewReader(line))
		require.Equal(t, want, failures[0], "%q", line)
	}
}

func TestALineHasALimit(t *testing.T) {
	line := "lease " + strings.Repeat("a", maxLine-len("lease  0\r\n")) + " 0\r\n"
	_, failures := readAll(strings.NewReader(line))
	require.NoError(t, failures[0])
	_, failures = readAll(strings.NewReader("x" + line))
	require.Equal(t, errClosed, failures[0])
}

func TestBytesThatAreJSONStayBytes(t *testing.T) {
	require.Equal(t, "hi", string(bodyOf([]byte(`{"body":"aGk="}`))))
	require.Empty(t, bodyOf([]byte(`{"body":""}`)))
	for _, data := range []string{
		`{"a":1}`, `{"body":"?"}`, `{"body":"aGk=","a":1}`, `{"BODY":"aGk="}`, `[]`, `{}`, `7`,
	} {
		require.Equal(t, data, string(bodyOf([]byte(data))))
	}
}

// qless accepts every job accepted by the parsers.
func FuzzSpecs(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parseLine(line)
		form, known := forms[c.name]
		if err != nil || !known || len(c.args) != form.least {
			return
		}
		var s spec
		var wait time.Duration
		switch c.name {
		case "add", "schedule":
			s, err = parseAdd(&c)
		case "run":
			s, wait, err = parseRun(&c)
		default:
			return
		}
		if err == nil {
			err = s.check(now, c.name == "run")
		}
		if err != nil {
			var refused refusal
			require.ErrorAs(t, err, &refused)
			return
		}
		name, priority, ok := parseQueue(s.queue())
		require.True(t, ok)
		require.Equal(t, s.name, name)
		require.Equal(t, s.priority, priority)
		require.Positive(t, s.ttr)
		if c.name == "run" {
			require.Zero(t, s.ttl)
			require.LessOrEqual(t, wait, milliseconds(maxWait))
		} else {
			require.True(t, s.ends(now).After(now))
		}
		require.NotContains(t, s.options(now, maxShift), nil)
	})
}

// A Body writes the data read by bodyOf. bodyOf leaves anything else unchanged.
func FuzzBody(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		written, err := json.Marshal(Body{data})
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, bodyOf(written)))
		var body Body
		if got := bodyOf(data); !bytes.Equal(got, data) {
			require.NoError(t, json.Unmarshal(data, &body))
			require.True(t, bytes.Equal(body.Body, got))
		}
	})
}

// FuzzArgs covers the arguments that are not in a spec.
func FuzzArgs(f *testing.F) {
	for _, text := range []string{
		"0", "86400000", "86400001", "4294967296", "+1", "-", "a.b-c_D", "é",
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		if wait, err := parseWait(first); err != nil {
			require.Equal(t, errWaitTimeout, err)
		} else {
			require.True(t, 0 <= wait && wait <= milliseconds(maxWait), "%v", wait)
		}
		if offset, limit, err := parseRange([]string{first, second}); err != nil {
			require.Contains(t, []error{errCursorOffset, errLimit}, err)
		} else {
			require.GreaterOrEqual(t, offset, 0)
			require.True(t, 1 <= limit && limit <= maxListed, "%d", limit)
		}
		if checkName(first) == nil {
			name, _, ok := parseQueue(Queue(first, 7))
			require.True(t, ok)
			require.Equal(t, first, name)
		}
	})
}

func FuzzQueue(f *testing.F) {
	f.Fuzz(func(t *testing.T, queue string) {
		name, priority, ok := parseQueue(queue)
		if !ok {
			return
		}
		require.NoError(t, checkName(name))
		require.Contains(t, []string{Queue(name, priority), ScheduledQueue(name, priority)}, queue)
	})
}
