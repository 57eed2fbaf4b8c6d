package workq

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Limits of values, in milliseconds.
const (
	maxTTR  = 86_400_000
	maxTTL  = 2_592_000_000
	maxWait = 86_400_000
)

// maxName is the maximum length of a name, in bytes.
const maxName = 255

// An id is a UUID.
type id [16]byte

// parseID parses a UUID of any version, in any form accepted by Workq.
func parseID(text string) (id, error) {
	switch len(text) {
	case 45:
		if text[:9] != "urn:uuid:" {
			return id{}, errID
		}
		text = text[9:]
	case 38:
		if text[0] != '{' || text[37] != '}' {
			return id{}, errID
		}
		text = text[1:37]
	}
	if len(text) == 36 {
		if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
			return id{}, errID
		}
		text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	var u id
	if len(text) != 32 {
		return u, errID
	}
	if _, err := hex.Decode(u[:], []byte(text)); err != nil {
		return u, errID
	}
	return u, nil
}

// check returns an error unless the id is a UUID of version 4.
func (u id) check() error {
	if u[6]>>4 != 4 || u[8]>>6 != 2 {
		return errID
	}
	return nil
}

// hex returns the id in the form of the random jids of qless clients.
func (u id) hex() string { return hex.EncodeToString(u[:]) }

// String returns the id in its canonical form, which is the jid of the gateway's jobs.
func (u id) String() string {
	text := u.hex()
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// parseJobID parses the id of a job.
func parseJobID(text string) (id, error) {
	u, err := parseID(text)
	if err != nil {
		return u, err
	}
	return u, u.check()
}

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return errName
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("_.-", c) >= 0:
		default:
			return errName
		}
	}
	return nil
}

// parseNumber parses a number of at most the given bits, or returns the refusal.
func parseNumber(text string, bits int, refused refusal) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, refused
	}
	return n, nil
}

func parseWait(text string) (time.Duration, error) {
	n, err := parseNumber(text, 32, errWaitTimeout)
	if err != nil || n > maxWait {
		return 0, errWaitTimeout
	}
	return milliseconds(n), nil
}

func milliseconds(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }

// A spec is a client's description of a job to put.
type spec struct {
	id          id
	name        string
	ttr         uint64
	ttl         uint64 // 0 if the job is run
	at          time.Time
	priority    int
	maxAttempts uint64
	maxFails    uint64
	payload     []byte
}

// timeLayout is the format of times.
const timeLayout = "2006-01-02T15:04:05Z"

// parseAdd parses the arguments of add, or of schedule.
func parseAdd(c *command) (spec, error) {
	s, err := parseHead(c)
	if err != nil {
		return s, err
	}
	if s.ttl, err = parseNumber(c.args[3], 64, errTTL); err != nil {
		return s, err
	}
	if c.name == "schedule" {
		if s.at, err = time.Parse(timeLayout, c.args[4]); err != nil {
			return s, errTime
		}
	}
	return s, s.parseFlags(c)
}

// parseHead parses the arguments common to add, schedule and run.
func parseHead(c *command) (spec, error) {
	s := spec{payload: c.payload}
	var err error
	if s.id, err = parseID(c.args[0]); err != nil {
		return s, err
	}
	s.name = c.args[1]
	s.ttr, err = parseNumber(c.args[2], 32, errTTR)
	return s, err
}

func (s *spec) parseFlags(c *command) error {
	var err error
	if text, ok := c.flags["max-attempts"]; ok {
		if s.maxAttempts, err = parseNumber(text, 8, errMaxAttempts); err != nil {
			return err
		}
	}
	if text, ok := c.flags["max-fails"]; ok {
		if s.maxFails, err = parseNumber(text, 8, errMaxFails); err != nil {
			return err
		}
	}
	return s.parsePriority(c)
}

func (s *spec) parsePriority(c *command) error {
	text, ok := c.flags["priority"]
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return errPriority
	}
	s.priority = int(n)
	return nil
}

// parseRun parses the arguments of run.
func parseRun(c *command) (spec, time.Duration, error) {
	s, err := parseHead(c)
	if err != nil {
		return s, 0, err
	}
	if err := s.parsePriority(c); err != nil {
		return s, 0, err
	}
	wait, err := parseWait(c.args[3])
	return s, wait, err
}

// check returns an error if a value is out of range. The job of a run has no TTL.
func (s *spec) check(now time.Time, run bool) error {
	if err := s.id.check(); err != nil {
		return err
	}
	if err := checkName(s.name); err != nil {
		return err
	}
	if s.ttr < 1 || s.ttr > maxTTR {
		return errTTR
	}
	if run {
		return nil
	}
	if s.ttl < 1 || s.ttl > maxTTL {
		return errTTL
	}
	if !s.at.IsZero() && !s.at.Add(milliseconds(s.ttl)).After(now) {
		return errTime
	}
	return nil
}
