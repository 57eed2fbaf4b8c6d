//go:build linux

package network

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// A worker cut off from the server lets go of its jobs before others receive them.
func TestAWorkerThatIsCutOff(t *testing.T) {
	for name, c := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			k := startCrew(t, l)
			jids := k.put("Long", 8)
			testkit.Until(t, "both work", func() bool {
				return k.runningAt(beside) == 4 && k.runningAt(beyond) == 4
			})
			l.cut(c)
			began := time.Now()
			testkit.Until(t, "the one that is cut off lets go", func() bool { return k.runningAt(beyond) == 0 })
			t.Logf("it let go after %v", time.Since(began).Round(time.Millisecond))
			jids = append(jids, k.put("Short", 20)...)
			k.complete(jids)
			t.Logf("the other one had done all after %v", time.Since(began).Round(time.Millisecond))
			l.mend()
			mended := time.Now()
			more := k.put("Long", 8)
			testkit.Until(t, "the worker is back", func() bool { return k.runningAt(beyond) > 0 })
			t.Logf("it was back %v after the cable was mended", time.Since(mended).Round(time.Millisecond))
			k.complete(append(jids, more...))
		})
	}
}

// Bursts of packets are lost, in either direction, while jobs are put and run.
func TestLostPackets(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	l := newLab(t)
	k := startCrew(t, l)
	far := l.client(l.beyond).Queue("q")
	ctx, stop := context.WithCancel(t.Context())
	put := make(chan []string)
	go func() {
		var answered []string
		for ctx.Err() == nil {
			if jid, err := far.Put(ctx, "Short", nil, qless.Retries(1000)); err == nil {
				answered = append(answered, jid)
			}
		}
		put <- answered
	}()
	all := []cut{{toServer: true}, {fromServer: true}, {true, true}}
	ticker := time.NewTicker(50 * time.Millisecond) // alternates bursts and pauses
	defer ticker.Stop()
	for range 60 {
		l.cut(all[random.IntN(len(all))])
		<-ticker.C
		l.mend()
		for range random.IntN(4) {
			<-ticker.C
		}
	}
	stop()
	answered := testkit.Soon(t, "the puts", put)
	require.NotEmpty(t, answered)
	k.complete(answered)
}
