package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/words"
)

// cell returns a cell with a figure. A zero is pale, and omitted on a phone, where the label is
// shown. Any other figure is red if isAlarm is set.
func cell(label string, value any, isAlarm bool) template.HTML {
	text, isZero := figure(value)
	class := "n"
	switch {
	case isZero:
		class += " z"
	case isAlarm:
		class += " bad"
	}
	return template.HTML(fmt.Sprintf(`<td class="%s" data-l="%s">%s</td>`, class,
		template.HTMLEscapeString(label), template.HTMLEscapeString(text)))
}

// figure formats a number, a rate, or an age.
func figure(value any) (text string, isZero bool) {
	switch value := value.(type) {
	case int:
		return words.Number(value), value == 0
	case float64:
		if value == 0 {
			return "0", true
		}
		return units.Rate(value), false
	case time.Duration:
		if value <= 0 {
			return "–", true
		}
		return units.Age(value), false
	}
	text = fmt.Sprint(value)
	return text, text == "" || text == "–"
}

// meter draws a part of a whole in the colour of a state.
func meter(state string, n, of int) template.HTML {
	width := 64 * float64(max(0, min(n, of))) / float64(max(1, of))
	return template.HTML(fmt.Sprintf(`<svg class="meter hue %s" viewBox="0 0 64 6" `+
		`preserveAspectRatio="none" aria-hidden="true"><rect width="64" height="6"/>`+
		`<rect width="%.1f" height="6"/></svg>`, template.HTMLEscapeString(state), width))
}

// capital capitalizes a sentence, unless it begins with the name of a key.
func capital(text string) string {
	if word, _, _ := strings.Cut(text, " "); strings.Contains(word, ":") {
		return text
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// firstLine returns the first line of a message.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
