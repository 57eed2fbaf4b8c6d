package workq

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// A command is a client's line, with the payload if any.
type command struct {
	name    string
	args    []string          // without name and flags
	flags   map[string]string // by name
	payload []byte
}

// Limits of the protocol.
const (
	maxLine    = 1<<20 + 10_000 // bytes of a line, with its end
	maxPayload = 1 << 20        // bytes of a payload or a result
)

// errClosed means that the line is not answered and the connection is closed.
var errClosed = errors.New("the line is no command")

// A refusal is an error of the protocol: the text after the minus.
type refusal string

func (r refusal) Error() string { return string(r) }

// Errors of the protocol.
const (
	errUnknown        refusal = "CLIENT-ERROR Unknown command"
	errArgs           refusal = "CLIENT-ERROR Invalid command args"
	errFlags          refusal = "CLIENT-ERROR Invalid command flags"
	errPayloadSize    refusal = "CLIENT-ERROR Invalid payload size"
	errResultSize     refusal = "CLIENT-ERROR Invalid result size"
	errID             refusal = "CLIENT-ERROR Invalid ID"
	errName           refusal = "CLIENT-ERROR Invalid Name"
	errTTR            refusal = "CLIENT-ERROR Invalid TTR"
	errTTL            refusal = "CLIENT-ERROR Invalid TTL"
	errPriority       refusal = "CLIENT-ERROR Invalid Priority"
	errMaxAttempts    refusal = "CLIENT-ERROR Invalid Max Attempts"
	errMaxFails       refusal = "CLIENT-ERROR Invalid Max Fails"
	errTime           refusal = "CLIENT-ERROR Invalid Time"
	errWaitTimeout    refusal = "CLIENT-ERROR Invalid wait timeout"
	errCursorOffset   refusal = "CLIENT-ERROR Invalid cursor offset"
	errLimit          refusal = "CLIENT-ERROR Invalid limit"
	errDuplicate      refusal = "CLIENT-ERROR Duplicate job"
	errDuplicateEnd   refusal = "CLIENT-ERROR Duplicate result"
	errNotFound       refusal = "NOT-FOUND"
	errTimeout        refusal = "TIMEOUT"
	errReadOnly       refusal = "SERVER-ERROR Read-only mode triggered by cmdlog circuit breaker"
	errQueueOutOfSync refusal = "SERVER-ERROR Queue out of sync"
)

// A form is the syntax of a command.
type form struct {
	least, most int // numbers of arguments, without the name; a most of -1 means no limit
	flags       int
	tooLarge    refusal // set if a payload follows; the last argument is its size
}

var forms = map[string]form{
	"add":      {5, 5, 3, errPayloadSize},
	"schedule": {6, 6, 3, errPayloadSize},
	"run":      {5, 5, 1, errPayloadSize},
	"complete": {2, 2, 0, errPayloadSize},
	"fail":     {2, 2, 0, errResultSize},
	"delete":   {1, 1, 0, ""},
	"result":   {2, 2, 0, ""},
	"lease":    {2, -1, 0, ""},
	"inspect":  {1, -1, 0, ""},
}

// readCommand reads the next command. A refusal is sent as the answer; after any other error,
// nothing more can be read.
func readCommand(r *bufio.Reader) (command, error) {
	line, err := readLine(r)
	if err != nil {
		return command{}, err
	}
	c, err := parseLine(line)
	if err != nil {
		return command{}, err
	}
	f, ok := forms[c.name]
	if !ok {
		return command{}, errUnknown
	}
	if len(c.args) < f.least || f.most >= 0 && len(c.args) > f.most {
		return command{}, errArgs
	}
	if f.tooLarge != "" {
		last := len(c.args) - 1
		if c.payload, err = readPayload(r, c.args[last], f.tooLarge); err != nil {
			return command{}, err
		}
		c.args = c.args[:last]
	}
	if len(c.flags) > f.flags {
		return command{}, errArgs
	}
	return c, nil
}

// readLine reads a line, and returns it without its end.
func readLine(r *bufio.Reader) (string, error) {
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(long)+len(part) > maxLine {
			return "", errClosed
		}
		if err == nil && long == nil {
			return withoutEnd(part)
		}
		long = append(long, part...)
		if err == nil {
			return withoutEnd(long)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}

func withoutEnd(line []byte) (string, error) {
	text, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return "", errClosed
	}
	return string(text), nil
}

// parseLine splits a line into its name, arguments and flags.
func parseLine(line string) (command, error) {
	var c command
	name, _, _ := strings.Cut(line, " ")
	for word := range strings.SplitSeq(line, " ") {
		switch {
		case word == "":
		case word[0] != '-' || !strings.Contains(word, "="):
			c.args = append(c.args, word)
		case !c.addFlag(word[1:]): // a flag may take the place of the name
			return c, errFlags
		}
	}
	if len(c.args) > 0 && c.args[0] == name {
		c.name, c.args = name, c.args[1:]
	}
	return c, nil
}

// addFlag adds a flag, and reports whether that is possible.
func (c *command) addFlag(text string) bool {
	key, value, _ := strings.Cut(text, "=")
	value, _, _ = strings.Cut(value, "=")
	if _, twice := c.flags[key]; twice || key == "" || value == "" {
		return false
	}
	if c.flags == nil {
		c.flags = map[string]string{}
	}
	c.flags[key] = value
	return true
}

// readPayload reads a payload of a given size, and its end. wrong is the refusal if the payload has
// another size.
func readPayload(r *bufio.Reader, text string, wrong refusal) ([]byte, error) {
	size, err := strconv.Atoi(text)
	if err != nil || size < 0 || size > maxPayload {
		return nil, wrong
	}
	var payload bytes.Buffer // grows as data arrives
	if n, err := io.CopyN(&payload, r, int64(size)); n < int64(size) {
		return nil, cutShort(err, wrong)
	}
	end, err := r.ReadByte()
	if err != nil {
		return nil, cutShort(err, wrong)
	}
	if end != '\r' {
		if r.Buffered() > 0 { // the second byte of the end, if it has arrived
			_, _ = r.Discard(1)
		}
		return nil, wrong
	}
	if end, err = r.ReadByte(); err != nil {
		return nil, cutShort(err, wrong)
	}
	if end != '\n' {
		return nil, wrong
	}
	return payload.Bytes(), nil
}

// cutShort returns the error for a payload that ends early: a client that stopped sending may still
// read.
func cutShort(err error, wrong refusal) error {
	if errors.Is(err, io.EOF) {
		return wrong
	}
	return err
}
