package workq_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

// gatewayVariable is set to the URL of a Redis server if this binary must run as a gateway.
const gatewayVariable = "QLESS_WORKQ_GATEWAY"

// gatewayMain serves until its standard input ends.
func gatewayMain(url string) error {
	client, err := qless.Dial(context.Background(), url, nil)
	if err != nil {
		return err
	}
	server, err := workq.New(workq.Config{Client: client})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() { _ = server.Serve(listener) }()
	defer profile()()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A bench is a gateway in a separate process, in front of a separate Redis server.
type bench struct {
	testing.TB
	addr string
	pid  int
	rdb  *redis.Client
}

func newBench(tb testing.TB) *bench {
	tb.Helper()
	server := must(testkit.Launch())(tb)
	tb.Cleanup(server.Stop)
	self := must(os.Executable())(tb)
	gateway := exec.Command(self)
	gateway.Env = append(os.Environ(), gatewayVariable+"=redis://"+server.Addr())
	gateway.Stderr = os.Stderr
	stdin := must(gateway.StdinPipe())(tb)
	stdout := must(gateway.StdoutPipe())(tb)
	require.NoError(tb, gateway.Start())
	tb.Cleanup(func() {
		_ = stdin.Close()
		_ = gateway.Wait()
	})
	addr := must(bufio.NewReader(stdout).ReadString('\n'))(tb)
	return &bench{
		TB: tb, addr: strings.TrimSpace(addr), pid: gateway.Process.Pid, rdb: server.Client(tb),
	}
}

// usedByRedis returns the processor time used by the server.
func (b *bench) usedByRedis() time.Duration {
	var sum float64
	for _, line := range strings.Split(b.rdb.Info(b.Context(), "cpu").Val(), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			n := must(strconv.ParseFloat(value, 64))(b)
			sum += n
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// usedByGateway returns the processor time used by the gateway, if reported by the system.
func (b *bench) usedByGateway() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, _ := strconv.Atoi(fields[12])
	system, _ := strconv.Atoi(fields[13])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory returns the memory of the gateway, in KiB, if reported by the system.
func (b *bench) memory() (kib int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.pid))
	for _, line := range strings.Split(string(status), "\n") {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(text, &kib)
		}
	}
	return kib
}

// measure lets clients call do n times in all, and reports the cost of one call.
func (b *bench) measure(n, clients int, do func(c *bare)) {
	b.Helper()
	all := make([]*bare, clients)
	for i := range all {
		all[i] = b.dial()
	}
	timed, isTimed := b.TB.(*testing.B)
	if isTimed {
		timed.ResetTimer()
	}
	begun, redisUsed, gatewayUsed := time.Now(), b.usedByRedis(), b.usedByGateway()
	var left atomic.Int64
	left.Store(int64(n))
	var done sync.WaitGroup
	for _, c := range all {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				do(c)
			}
		})
	}
	done.Wait()
	if !isTimed {
		return
	}
	timed.StopTimer()
	timed.ReportMetric(float64(n)/time.Since(begun).Seconds(), "jobs/s")
	each := func(used time.Duration) float64 { return float64(used.Microseconds()) / float64(n) }
	timed.ReportMetric(each(b.usedByRedis()-redisUsed), "redis-us/job")
	timed.ReportMetric(each(b.usedByGateway()-gatewayUsed), "gateway-us/job")
	timed.ReportMetric(0, "ns/op")
}

// A bare is a client with little overhead.
type bare struct {
	testing.TB
	net net.Conn
	in  *bufio.Reader
}

func (b *bench) dial() *bare {
	b.Helper()
	connection := must(net.Dial("tcp", b.addr))(b)
	b.Cleanup(func() { _ = connection.Close() })
	return &bare{b.TB, connection, bufio.NewReaderSize(connection, 512)}
}

// expect reads a line, which must begin with want.
func (c *bare) expect(want string) string {
	line, err := c.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		c.Errorf("got %q, not %q: %v", line, want, err)
	}
	return line
}

var payload = strings.Repeat("x", 100)

func (c *bare) add() {
	fmt.Fprintf(c.net, "add %s q 60000 600000 100\r\n%s\r\n", uuid.NewString(), payload)
	c.expect("+OK")
}

// lease leases a job, and returns its id.
func (c *bare) lease() string {
	fmt.Fprint(c.net, "lease q 60000\r\n")
	c.expect("+OK 1")
	id, _, _ := strings.Cut(c.expect(""), " ")
	c.expect(payload)
	return id
}

func (c *bare) complete(id string) {
	fmt.Fprintf(c.net, "complete %s 2\r\nok\r\n", id)
	c.expect("+OK")
}

// withClients runs a benchmark with various numbers of clients.
func withClients(b *testing.B, run func(b *testing.B, clients int)) {
	for _, clients := range []int{1, 16, 100} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) { run(b, clients) })
	}
}

func BenchmarkAdds(b *testing.B) {
	withClients(b, func(b *testing.B, clients int) {
		newBench(b).measure(b.N, clients, (*bare).add)
	})
}

func BenchmarkLeasesAndCompletes(b *testing.B) {
	withClients(b, func(b *testing.B, clients int) {
		e := newBench(b)
		e.fill(b.N)
		e.measure(b.N, clients, func(c *bare) { c.complete(c.lease()) })
	})
}

// Each client adds a job, leases one, and completes it.
func BenchmarkJobs(b *testing.B) {
	withClients(b, func(b *testing.B, clients int) {
		newBench(b).measure(b.N, clients, func(c *bare) {
			c.add()
			c.complete(c.lease())
		})
	})
}

// fill adds jobs.
func (b *bench) fill(n int) {
	filler := &bench{TB: nothingTimed{b.TB}, addr: b.addr, pid: b.pid, rdb: b.rdb}
	filler.measure(n, 64, (*bare).add)
}

// nothingTimed hides that a test is a benchmark.
type nothingTimed struct{ testing.TB }

// Many clients wait for jobs. A job is added every few milliseconds.
func BenchmarkBlockedLeases(b *testing.B) {
	for _, clients := range []int{16, 100, 2000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			e := newBench(b)
			added := sync.Map{}
			var latencies []time.Duration
			var mu sync.Mutex
			waiting := make([]*bare, clients)
			for i := range waiting {
				waiting[i] = e.dial()
				fmt.Fprint(waiting[i].net, "lease q 600000\r\n")
				go func() {
					for {
						if _, err := waiting[i].in.ReadString('\n'); err != nil {
							return
						}
						line, _ := waiting[i].in.ReadString('\n')
						now := time.Now()
						id, _, _ := strings.Cut(line, " ")
						_, _ = waiting[i].in.ReadString('\n')
						at, _ := added.Load(id)
						mu.Lock()
						latencies = append(latencies, now.Sub(at.(time.Time)))
						mu.Unlock()
						fmt.Fprint(waiting[i].net, "lease q 600000\r\n")
					}
				}()
			}
			adding := e.dial()
			b.ResetTimer()
			for range b.N {
				id := uuid.NewString()
				added.Store(id, time.Now())
				fmt.Fprintf(adding.net, "add %s q 60000 600000 100\r\n%s\r\n", id, payload)
				adding.expect("+OK")
				time.Sleep(2 * time.Millisecond)
			}
			testkit.Until(b, "all jobs", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(latencies) == b.N
			})
			b.StopTimer()
			slices.Sort(latencies)
			at := func(share float64) float64 {
				i := int(share * float64(len(latencies)-1))
				return float64(latencies[i].Microseconds()) / 1000
			}
			b.ReportMetric(at(0.5), "p50-ms")
			b.ReportMetric(at(0.99), "p99-ms")
			b.ReportMetric(float64(e.memory())/1024, "MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// profile writes a profile of this process to the file named by an environment variable.
func profile() (stop func()) {
	path := os.Getenv("QLESS_WORKQ_PROFILE")
	if path == "" {
		return func() {}
	}
	file, err := os.Create(path)
	if err != nil {
		return func() {}
	}
	_ = pprof.StartCPUProfile(file)
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}
}
