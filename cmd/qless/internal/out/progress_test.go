package out

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABarSaysHowManyAreDone(t *testing.T) {
	p := &Progress{noun: "job", total: 200, done: 50}
	require.Equal(t, "[######..................]  25%  50 of 200 jobs, 25/s", p.line(2*time.Second))
	p.total = 0
	require.Equal(t, "50 jobs, 25/s", p.line(2*time.Second))
	p.total = 40 // more were added than expected
	require.Equal(t, "[########################] 100%  50 of 40 jobs", p.line(0))
}

func TestABarIsDrawnOnATerminalOnly(t *testing.T) {
	var out bytes.Buffer
	p := (&Console{Err: &out}).NewProgress("job", 2)
	p.Add(1)
	p.End()
	require.Empty(t, out.String())

	p = &Progress{Out: &out, noun: "job", total: 2, begun: time.Now()}
	p.Add(1)
	require.Contains(t, out.String(), "1 of 2 jobs")
	p.End()
	require.Equal(t, "\r"+ClearToEnd, out.String()[out.Len()-4:])
}
