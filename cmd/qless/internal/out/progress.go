package out

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// A Progress shows the progress of a long command: a bar on a terminal, and nothing elsewhere.
type Progress struct {
	Out   io.Writer // nil where there is no terminal
	noun  string
	total int // 0 if unknown
	done  int
	begun time.Time
	drawn time.Time
}

const (
	barWidth   = 24
	barPause   = 100 * time.Millisecond // between two drawings
	ClearToEnd = "\x1b[K"
)

// NewProgress returns a bar for a number of things, such as "job"s. The caller must end it before
// printing anything else.
func (c *Console) NewProgress(noun string, total int) *Progress {
	p := &Progress{noun: noun, total: total, begun: time.Now()}
	if text.IsTerminal(c.Err) {
		p.Out = c.Err
	}
	return p
}

// Add counts n more as done.
func (p *Progress) Add(n int) { p.Reach(p.done + n) }

// Reach sets the total number done.
func (p *Progress) Reach(n int) {
	p.done = n
	if now := time.Now(); p.Out != nil && now.Sub(p.drawn) >= barPause {
		p.drawn = now
		fmt.Fprint(p.Out, "\r"+p.line(now.Sub(p.begun))+ClearToEnd)
	}
}

// End removes the bar.
func (p *Progress) End() {
	if p.Out != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.Out, "\r"+ClearToEnd)
	}
}

// line returns the bar after a time.
func (p *Progress) line(ran time.Duration) string {
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
