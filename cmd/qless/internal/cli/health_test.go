package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// troubles are the rows of the table of health in docs/operations.md, with their causes.
var troubles = []struct {
	server string
	cause  func(s *sickServer)
}{
	{"works", func(*sickServer) {}},
	{"is down", func(s *sickServer) { s.real.Kill() }},
	{"hangs", func(s *sickServer) { s.real.Suspend() }},
	{"is loading its data", (*sickServer).load},
	{"is a replica", func(s *sickServer) { s.real.Refuse(s.t, "READONLY") }},
	{"lacks replicas (`NOREPLICAS`)", func(s *sickServer) { s.real.Refuse(s.t, "NOREPLICAS") }},
	{"can't save (`MISCONF`)", func(s *sickServer) { s.real.Refuse(s.t, "MISCONF") }},
	{"is full (`OOM`)", func(s *sickServer) { s.real.Refuse(s.t, "OOM") }},
	{"knows another password", func(s *sickServer) {
		s.redis("acl setuser app resetpass >other")
		s.redis("client kill user app")
	}},
	{"denies scripts", func(s *sickServer) { s.redis("acl setuser app -evalsha -eval") }},
	{"denies all commands but `PING`", func(s *sickServer) {
		s.redis("acl setuser app -@all +ping")
	}},
	{"denies the channels", func(s *sickServer) { s.redis("acl setuser app resetchannels") }},
	{"is of a cluster that is down", func(s *sickServer) { s.loseSlot("{shop}") }},
	{"is of a cluster without the slot", func(s *sickServer) {
		s.redis("config set cluster-require-full-coverage no")
		s.loseSlot("{mail}")
	}},
}

// A sickServer is a server that gets into trouble.
type sickServer struct{ *env }

// load makes the server load its data for longer than the test takes.
func (s *sickServer) load() {
	for i := range 2000 {
		s.redis(fmt.Sprintf("set key%d %s", i, strings.Repeat("x", 1024)))
	}
	s.redis("config set rdbcompression no key-load-delay 50000 " +
		"loading-process-events-interval-bytes 1024")
	go func() { _ = s.real.Client(s.t).Do(context.Background(), "DEBUG", "RELOAD").Err() }()
	testkit.Until(s.t, "the server loads", func() bool {
		return redis.IsLoadingError(s.rdb.Get(s.t.Context(), "key").Err())
	})
}

func TestHealthIsAsTheTableSays(t *testing.T) {
	page := must(os.ReadFile("../../../../docs/operations.md"))(t)
	for _, trouble := range troubles {
		t.Run(trouble.server, func(t *testing.T) {
			t.Parallel()
			s := newSickServer(t, strings.Contains(trouble.server, "cluster"))
			row := fmt.Sprintf("| %s | %s |\n", trouble.server, strings.Join(s.health(trouble.cause), " | "))
			require.Contains(t, string(page), row)
		})
	}
}

func newSickServer(t *testing.T, inCluster bool) *sickServer {
	if inCluster {
		return &sickServer{newClusterNode(t)}
	}
	e, _ := newReal(t, "--enable-debug-command", "yes")
	e.redis("acl setuser app on >secret ~* &* +@all")
	e.url = "redis://app:secret@" + e.real.Addr()
	return &sickServer{e}
}

// health returns the cells of the table: the result of each check once the server is in trouble.
func (s *sickServer) health(cause func(*sickServer)) (cells []string) {
	worker := s.worker()
	gateways := s.serving(2, "serve", "--metrics", anywhere, "--workq", anywhere)
	exporter := s.serving(1, "exporter", "--listen", anywhere)
	cause(s)
	for _, check := range []string{"server --warn ping=1m --crit ping=1m", "queue mail"} {
		result, _, _ := strings.Cut(s.fields("check "+check+" --timeout 2s").out, " ")
		cells = append(cells, result)
	}
	for _, check := range []string{"workers", "failures"} { // ask in the same way
		require.Equal(s.t, cells[1], strings.Fields(s.fields("check " + check + " --timeout 2s").out)[0])
	}
	for _, command := range []string{"queue ls", "doctor"} {
		cells = append(cells, fmt.Sprint(s.fields(command+" --timeout 2s").status))
	}
	cells = append(cells, s.start())
	for _, serving := range []*serving{gateways, exporter} {
		status, _ := serving.get("metrics", "/readyz")
		cells = append(cells, fmt.Sprint(status))
		status, _ = serving.get("metrics", "/healthz")
		require.Equal(s.t, http.StatusOK, status, "a restart of the process is no remedy")
	}
	return append(cells, s.settled(worker))
}

// start starts servers in trouble, and returns their outcomes.
func (s *sickServer) start() string {
	f := s.begin("serve --timeout 2s --workq " + anywhere)
	if _, listens := <-f.lines; listens {
		require.NoError(s.t, f.command.Process.Kill())
		_ = f.command.Wait()
		return "serves"
	}
	_ = f.command.Wait()
	return fmt.Sprint(f.command.ProcessState.ExitCode())
}

// worker starts a worker, and waits until the server has answered it.
func (s *sickServer) worker() *qless.Worker {
	config := &qless.ClientConfig{Logger: testkit.Quiet()}
	if s.environ != nil {
		config.Namespace = "{mail}:ql:"
	}
	client := must(qless.Dial(s.t.Context(), s.url, config))(s.t)
	must(client.Queue("mail").Put(s.t.Context(), "Mail", nil))(s.t)
	worker := must(qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"mail"}, PollInterval: time.Second,
	}))(s.t)
	worker.Handle("Mail", nothing)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	s.t.Cleanup(func() {
		if s.real != nil {
			s.real.Kill() // otherwise a stopping worker waits for the hanging server
		}
		cancel()
		testkit.Soon(s.t, "the end of the worker", ended)
		_ = client.Close()
	})
	testkit.Until(s.t, "the job is done", func() bool { return worker.Stats().Completed == 1 })
	return worker
}

// settled returns the health reported by a worker after some exchanges, if any.
func (s *sickServer) settled(worker *qless.Worker) string {
	var last time.Time
	answers := 0
	testkit.Until(s.t, "exchanges or an error", func() bool {
		if at := worker.Stats().LastAnswer; at.After(last) {
			last = at
			answers++
		}
		return answers > 3 || worker.Healthy() != nil
	})
	switch health := worker.Healthy(); {
	case errors.Is(health, qless.ErrServer):
		return "`ErrServer`"
	case errors.Is(health, qless.ErrUnavailable):
		return "`ErrUnavailable`"
	}
	return "nil"
}
