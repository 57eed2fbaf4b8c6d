package redisx

import (
	"errors"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Answer returns the server's message in an error, or the empty string. It replaces messages that
// do not name their cause.
func Answer(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := reply.Error()
	switch {
	case strings.Contains(text, "Protocol error: unauthenticated"): // the answer to a long command
		return "NOAUTH Authentication required."
	case strings.Contains(text, "non local key in a cluster"):
		return "the server is part of a cluster, and the namespace has no hash tag"
	}
	return text
}

// IsAnswer reports whether an error is an answer of the server.
func IsAnswer(err error) bool { return Answer(err) != "" }

// IsAway reports whether the server answered that it does not accept such a command for now.
func IsAway(err error) bool {
	return redis.IsLoadingError(err) || isReadOnly(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err) ||
		isBusy(err)
}

// IsRefusal reports whether the server answered, and is not unavailable for now.
func IsRefusal(err error) bool { return IsAnswer(err) && !IsAway(err) }

// IsUnanswered reports whether the server's answer remains open: there was none, or the server
// accepts no commands for now.
func IsUnanswered(err error) bool { return err != nil && (!IsAnswer(err) || NeverRan(err)) }

// NeverRan reports whether a command certainly did not run, because there was no connection or the
// server accepted no commands. Resending the command is safe.
func NeverRan(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	if _, moved := redis.IsMovedError(err); moved {
		return true
	}
	if _, ask := redis.IsAskError(err); ask {
		return true
	}
	return IsAway(err)
}

// isReadOnly reports whether the server is a replica. Redis 6 puts the code in a script's error.
func isReadOnly(err error) bool {
	return redis.IsReadOnlyError(err) || err != nil && strings.Contains(err.Error(), ": -READONLY ")
}

// isBusy reports whether the server is busy with a long script.
func isBusy(err error) bool { return redis.HasErrorPrefix(err, "BUSY ") }

// IsDamage reports whether a command found a key with a value of a wrong type.
func IsDamage(err error) bool { return strings.Contains(Answer(err), "WRONGTYPE ") }

// IsTimeout reports whether a connection was silent for too long.
func IsTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

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

// quoted matches text in quotes of any kind, or after an unclosed quote. An apostrophe within a
// word is not a quote.
var quoted = regexp.MustCompile(strings.Join([]string{
	`"(?:\\.|[^"\\])*"`,
	"`[^`]*`",
	"`[^`']*'",
	`\B'(?:\b'\b|[^'])*'\B`,
	`“[^”]*”`,
	`„[^“”]*[“”]`,
	`«[^»]*»`,
	`‘(?:\pL’\pL|[^’])*’`,
	`=\([^)]*\)`, // as PostgreSQL quotes
	"[\"`“„«‘].*",
	`\B'.*`,
}, "|"))

// varying matches a word with a number, an address, a path or the like.
var varying = regexp.MustCompile(`[\pN@/\\]|^[a-fA-F]{8,}$`)

// keyed matches a word with a name and a value, as in user=jane.
var keyed = regexp.MustCompile(`^([\pL_.-]+=).`)

// stars matches several stars in a row.
var stars = regexp.MustCompile(`\*(?: \*)+`)

// maxLine is the number of bytes of an error's text to examine.
const maxLine = 1 << 10

// WithoutDetails returns the first line of an error's text, with a * for everything likely to vary
// from job to job, or to be personal. A long line is cut.
func WithoutDetails(text string) string {
	line, _, _ := strings.Cut(text[:min(len(text), maxLine)], "\n")
	words := strings.Fields(quoted.ReplaceAllString(line, "*"))
	for i, word := range words {
		words[i] = withoutDetail(word)
	}
	return stars.ReplaceAllString(strings.Join(words, " "), "*")
}

func withoutDetail(word string) string {
	core := strings.Trim(word, "()[]{}<>,.;:!?")
	if core == "" || strings.EqualFold(core, "i/o") {
		return word
	}
	before, after, _ := strings.Cut(word, core)
	if key := keyed.FindStringSubmatch(core); key != nil {
		return before + key[1] + "*" + after
	}
	if varying.MatchString(core) {
		return before + "*" + after
	}
	return word
}
