package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// A progress shows the progress of a long command: a bar on a terminal, and nothing elsewhere.
type progress struct {
	out   io.Writer // nil where there is no terminal
	noun  string
	total int // 0 if unknown
	done  int
	begun time.Time
	drawn time.Time
}

const (
	barWidth   = 24
	barPause   = 100 * time.Millisecond // between two drawings
	clearToEnd = "\x1b[K"
)

// newProgress returns a bar for a number of things, such as "job"s. It has to be ended before
// anything else is printed.
func (c *console) newProgress(noun string, total int) *progress {
	p := &progress{noun: noun, total: total, begun: time.Now()}
	if text.IsTerminal(c.err) {
		p.out = c.err
	}
	return p
}

// add counts n more as done.
func (p *progress) add(n int) { p.reach(p.done + n) }

// reach sets the total number done.
func (p *progress) reach(n int) {
	p.done = n
	if now := time.Now(); p.out != nil && now.Sub(p.drawn) >= barPause {
		p.drawn = now
		fmt.Fprint(p.out, "\r"+p.line(now.Sub(p.begun))+clearToEnd)
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.out != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.out, "\r"+clearToEnd)
	}
}

// line returns the bar after a time.
func (p *progress) line(ran time.Duration) string {
	rate := ""
	if seconds := ran.Seconds(); seconds > 0 {
		rate = fmt.Sprintf(", %.0f/s", float64(p.done)/seconds)
	}
	if p.total <= 0 {
		return text.Count(p.done, p.noun) + rate
	}
	share := min(1, float64(p.done)/float64(p.total))
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%  %d of %s%s",
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*share,
		p.done, text.Count(p.total, p.noun), rate)
}
