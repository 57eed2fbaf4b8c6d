package redisx

import (
	"regexp"
	"strings"
)

// hints holds advice for refusals of the server, by the first word of its error.
var hints = map[string]string{
	"BUSY":        "a script has run for too long: see SCRIPT KILL",
	"CLUSTERDOWN": "the cluster does not serve all slots: check its nodes",
	"LOADING":     "the server is reading its data from disk: wait",
	"MASTERDOWN":  "it is a replica without a master: connect to the master",
	"MAXCLIENTS":  "raise maxclients, or open fewer connections",
	"MISCONF":     "the server can't save its data: see its log and the disk",
	"NOAUTH":      "give the client the server's password",
	"NOPERM":      "grant the user the permissions in docs/security.md",
	"NOREPLICAS":  "too few replicas are connected: see min-replicas-to-write",
	"OOM":         "free memory or raise maxmemory",
	"READONLY":    "it is a replica: connect to the master",
	"TRYAGAIN":    "the cluster is moving the slot: wait",
	"WRONGPASS":   "give the client a user and a password that the server knows",
}

// firstWord matches the first word of a server error. Redis 6 puts it in a script's error.
var firstWord = regexp.MustCompile(`^(?:ERR .*?: -)?([A-Z]+) `)

// Refusal returns the first word of the server's error, as in hints, or the empty string without an
// answer.
func Refusal(err error) string {
	answer := Answer(err)
	switch {
	case strings.Contains(answer, "ACL failure in script"),
		strings.Contains(answer, "The user executing the script can't"):
		return "NOPERM"
	case strings.Contains(answer, "max number of clients"):
		return "MAXCLIENTS"
	}
	if word := firstWord.FindStringSubmatch(answer); word != nil {
		return word[1]
	}
	return answer
}

// IsServerWide reports whether a refusal is about the server or the user, not the command.
func IsServerWide(err error) bool {
	_, known := hints[Refusal(err)]
	return known || IsAnswer(err) && NeverRan(err)
}

// Hint returns what to do when the server refuses a command with an error, or the empty string.
func Hint(err error) string { return hints[Refusal(err)] }

// WithHint returns the attributes to log for an error: the server's answer, and what to do about
// it.
func WithHint(err error, args ...any) []any {
	if answer := Answer(err); answer != "" {
		args = append(args, "error", answer)
	} else {
		args = append(args, "error", err)
	}
	if hint := Hint(err); hint != "" {
		args = append(args, "hint", hint)
	}
	return args
}
