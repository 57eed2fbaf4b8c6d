package guard

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text returns the text of an error from a user's code. The Error method may not return: that of a
// nil pointer often panics.
func Text(err error) string {
	text, problem := Value(Call, func() string { return err.Error() })
	if problem != nil {
		return fmt.Sprintf("%T.Error: %v", err, problem)
	}
	return text
}

// The maximum sizes in bytes of the texts of a failure.
const (
	maxText  = 16 << 10
	maxPanic = 4 << 10
)

// Message returns the message of a failure, or of an entry of a log, as stored by the server.
func Message(text string) string { return Cut(text, maxText) }

// Group returns the name of a group of failures, as stored by the server.
func Group(text string) string { return CutShort(text, maxText) }

// PanicValue returns the text of a panic's value, even if the value's methods do not return. The
// text is short: in a message, the stack follows it.
func PanicValue(value any) string {
	text, problem := Value(Call, func() string { return fmt.Sprint(value) })
	if problem != nil {
		return fmt.Sprintf("%T: %v", value, problem)
	}
	return Cut(text, maxPanic)
}

// Cut returns a text as valid UTF-8, in at most most bytes, which must be at least 100. In a longer
// text, a line with the number of bytes left out replaces the middle, because the end often
// matters, as in the stack of a panic.
func Cut(text string, most int) string {
	if len(text) > most {
		room := most - len("\n[ bytes are left out]\n") - len("9223372036854775807")
		head, tail := start(text, room*3/4), end(text, room/4)
		left := len(text) - len(head) - len(tail)
		text = fmt.Sprintf("%s\n[%d bytes are left out]\n%s", head, left, tail)
	}
	valid := strings.ToValidUTF8(text, "\uFFFD")
	if len(valid) > most { // the replacement is longer than the original
		return start(valid, most)
	}
	return valid
}

// CutShort returns a text of one line of at most most bytes, as valid UTF-8. A longer text ends in
// an ellipsis.
func CutShort(text string, most int) string {
	const mark = "…"
	if len(text) > most {
		text = start(text, most-len(mark)) + mark
	}
	if valid := strings.ToValidUTF8(text, "\uFFFD"); len(valid) <= most {
		return valid
	}
	return strings.ToValidUTF8(text, "?")
}

// start returns the first bytes of a text, at most n, without a partial rune.
func start(text string, n int) string {
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(text[n]); back++ {
		n--
	}
	return text[:n]
}

// end returns the last bytes of a text, at most n, without a partial rune.
func end(text string, n int) string {
	from := len(text) - n
	for ahead := 0; ahead < utf8.UTFMax && from < len(text) && !utf8.RuneStart(text[from]); ahead++ {
		from++
	}
	return text[from:]
}
