//go:build linux

package network

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// A wire carries packets between the two ends of a lab like a bad network: it loses some packets,
// and delays each for a different time, letting packets overtake each other.
type wire struct {
	loss          float64 // the share of packets lost
	delay, jitter time.Duration

	mu     sync.Mutex
	random *rand.Rand
	silent map[uint16]bool // the ports of silenced connections

	carried, lost atomic.Int64
}

// newWiredLab creates a lab with a wire between its ends.
func newWiredLab(t testing.TB, w *wire) *lab {
	t.Helper()
	l := newNamespaces(t)
	w.random, w.silent = rand.New(rand.NewPCG(testkit.Seed(t), 0)), map[uint16]bool{}
	plugs := make([]*os.File, 2)
	for i, e := range []end{l.here, l.beyond} {
		plug, err := e.plug()
		if err != nil {
			t.Skipf("left out: it needs /dev/net/tun: %v", err)
		}
		plugs[i] = plug
		t.Cleanup(func() { _ = plug.Close() })
	}
	for _, ends := range [][2]end{{l.here, l.beyond}, {l.beyond, l.here}} {
		in := "-n " + ends[0].namespace + " "
		l.ip(in + "addr add " + ends[0].addr + " peer " + ends[1].addr + " dev cable")
		l.ip(in + "link set dev cable up")
	}
	go w.carry(plugs[0], plugs[1])
	go w.carry(plugs[1], plugs[0])
	l.startServer()
	t.Cleanup(func() { t.Logf("%d packets carried, %d lost", w.carried.Load(), w.lost.Load()) })
	return l
}

// Constants for creating a device for reading and writing packets in a program on Linux.
const (
	setDevice   = 0x400454ca
	justPackets = 0x1001 // IP packets without a header before them
)

// plug creates the device of an end, and returns the file to read and write its packets.
func (e end) plug() (plug *os.File, err error) {
	failed := e.within(func() error {
		fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		var request struct {
			name  [syscall.IFNAMSIZ]byte
			flags uint16
			_     [22]byte
		}
		copy(request.name[:], e.device)
		request.flags = justPackets
		_, _, problem := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), setDevice, uintptr(unsafe.Pointer(&request)))
		if problem == 0 {
			err = syscall.SetNonblock(fd, true) // closing it then ends a read
		} else {
			err = problem
		}
		if err != nil {
			_ = syscall.Close(fd)
			return err
		}
		plug = os.NewFile(uintptr(fd), "tun")
		return nil
	})
	return plug, failed
}

// carry carries packets in one direction until an end is closed.
func (w *wire) carry(from, to *os.File) {
	buffer := make([]byte, 65536)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		packet := append([]byte(nil), buffer[:n]...)
		delay, arrives := w.fate(packet)
		if !arrives {
			w.lost.Add(1)
			continue
		}
		w.carried.Add(1)
		time.AfterFunc(delay, func() { _, _ = to.Write(packet) })
	}
}

// fate returns the delay of a packet, and whether it arrives.
func (w *wire) fate(packet []byte) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if from, to, ok := ports(packet); ok && (w.silent[from] || w.silent[to]) {
		return 0, false
	}
	if w.random.Float64() < w.loss {
		return 0, false
	}
	return w.delay + time.Duration(w.random.Int64N(int64(w.jitter)+1)), true
}

// ports returns the ports of a TCP packet.
func ports(packet []byte) (from, to uint16, ok bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 || packet[9] != syscall.IPPROTO_TCP {
		return 0, 0, false
	}
	head := int(packet[0]&15) * 4
	if len(packet) < head+4 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint16(packet[head:]), binary.BigEndian.Uint16(packet[head+2:]), true
}

// silence stops carrying the packets of a connection. The connection stays open.
func (w *wire) silence(port uint16) {
	w.mu.Lock()
	w.silent[port] = true
	w.mu.Unlock()
}

// Packets are lost, late and out of order all the time, while jobs are put and run.
func TestALossyWire(t *testing.T) {
	t.Parallel()
	w := &wire{loss: 0.03, delay: 20 * time.Millisecond, jitter: 20 * time.Millisecond}
	l := newWiredLab(t, w)
	k := startCrew(t, l)
	far := l.client(l.beyond).Queue("q")
	var answered []string
	began := time.Now()
	for range 100 {
		if jid, err := far.Put(t.Context(), "Short", nil, qless.Retries(1000)); err == nil {
			answered = append(answered, jid)
		}
	}
	t.Logf("%d puts had an answer, in %v", len(answered), time.Since(began).Round(time.Millisecond))
	require.NotEmpty(t, answered)
	k.complete(append(answered, k.put("Long", 8)...))
	require.NotZero(t, w.lost.Load())
}

// Only the connection of a worker's subscription becomes silent. The worker notices, and subscribes
// on another connection.
func TestASilentSubscription(t *testing.T) {
	t.Parallel()
	w := &wire{}
	l := newWiredLab(t, w)
	steady, far := l.client(l.here), l.client(l.beyond)
	worker, err := qless.NewWorker(far, qless.WorkerConfig{Queues: []string{"q"}, PollInterval: time.Hour})
	require.NoError(t, err)
	done := make(chan string, 2)
	worker.Handle("K", func(_ context.Context, job *qless.Job) error {
		done <- job.JID
		return nil
	})
	require.NoError(t, worker.Start(context.Background()))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = worker.Stop(ctx)
	})
	put := func() string {
		jid, err := steady.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
		return jid
	}
	require.Equal(t, put(), testkit.Soon(t, "the first job", done))
	rdb := l.redis(l.here)
	testkit.Until(t, "it is idle, and listens", func() bool {
		return rdb.SCard(t.Context(), "ql:x:idle").Val() == 1 && len(l.subscribers(rdb)) > 0
	})
	for _, port := range l.subscribers(rdb) {
		w.silence(port)
	}
	began := time.Now()
	jid := put()
	require.Equal(t, jid, testkit.Soon(t, "the second job", done))
	t.Logf("it had the job after %v", time.Since(began).Round(time.Millisecond))
}

// subscribers returns the ports of the subscriptions from beyond.
func (l *lab) subscribers(rdb *redis.Client) []uint16 {
	l.t.Helper()
	list, err := rdb.Do(l.t.Context(), "client", "list", "type", "pubsub").Text()
	require.NoError(l.t, err)
	var all []uint16
	for _, field := range strings.Fields(list) {
		if port, found := strings.CutPrefix(field, "addr="+l.beyond.addr+":"); found {
			n, err := strconv.ParseUint(port, 10, 16)
			require.NoError(l.t, err)
			all = append(all, uint16(n))
		}
	}
	return all
}
