package wire

import (
	"strconv"
	"strings"
)

// A Problem is the reason why the script rejects a job or an argument.
type Problem struct {
	Code string // of a qless.Error
	JID  string // of the job concerned, if any
	Text string // with a JID, the text after "the job"
}

// serverCode is the code of server errors.
const serverCode = "server"

// parseProblem parses the text of a problem: the code, the lengths of the jid and of the text, the
// jid and the text, separated by spaces. Anything may follow.
func parseProblem(text string) (p Problem, ok bool) {
	parts := strings.SplitN(text, " ", 4)
	if len(parts) < 4 {
		return Problem{}, false
	}
	jid, err := strconv.ParseUint(parts[1], 10, 31)
	if err != nil {
		return Problem{}, false
	}
	length, err := strconv.ParseUint(parts[2], 10, 31)
	rest := parts[3]
	if err != nil || uint64(len(rest)) <= jid || rest[jid] != ' ' {
		return Problem{}, false
	}
	p = Problem{Code: parts[0], JID: rest[:jid], Text: rest[jid+1:]}
	p.Text = p.Text[:min(length, uint64(len(p.Text)))] // the server may have cut the text
	return p, true
}

// RaisedProblem finds a problem raised by the script, "Area(): problem", in a server error, where
// other words surround it.
func RaisedProblem(answer string) (p Problem, ok bool) {
	_, text, found := strings.Cut(answer, "(): ")
	if !found {
		return Problem{}, false
	}
	return parseProblem(text)
}

// RefusedProblem returns the problem with one of several jobs, if a script's reply reports one.
func RefusedProblem(reply string) (p Problem, refused bool) {
	text, refused := strings.CutPrefix(reply, "!")
	if !refused {
		return Problem{}, false
	}
	p, ok := parseProblem(text)
	if !ok {
		p = Problem{Code: serverCode, Text: text}
	}
	return p, true
}

// LeavesRest reports whether a script's reply for an ended job is marked for dependents that must
// still be released or notified.
func LeavesRest(reply string) bool {
	return strings.HasSuffix(reply, "+") && !strings.HasPrefix(reply, "!")
}

// About describes the problem in an error that names a job.
func (p Problem) About(jid string) string {
	switch p.JID {
	case "":
		return p.Text
	case jid:
		return "the job " + p.Text
	}
	return "Job " + p.JID + " " + p.Text
}
