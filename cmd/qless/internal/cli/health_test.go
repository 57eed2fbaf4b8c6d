package cli_test

import (
	"bufio"
	"cmp"
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
	{"is down", func(s *sickServer) { s.Kill() }},
	{"hangs", func(s *sickServer) { s.Suspend() }},
	{"is loading its data", (*sickServer).load},
	{"is a replica", func(s *sickServer) { s.Refuse(s.t, "READONLY") }},
	{"lacks replicas (`NOREPLICAS`)", func(s *sickServer) { s.Refuse(s.t, "NOREPLICAS") }},
	{"can't save (`MISCONF`)", func(s *sickServer) { s.Refuse(s.t, "MISCONF") }},
	{"is full (`OOM`)", func(s *sickServer) { s.Refuse(s.t, "OOM") }},
	{"knows another password", func(s *sickServer) {
		s.do("ACL", "SETUSER", "app", "resetpass", ">other")
		s.do("CLIENT", "KILL", "USER", "app")
	}},
	{"denies scripts", func(s *sickServer) { s.do("ACL", "SETUSER", "app", "-evalsha", "-eval") }},
	{"denies all commands but `PING`", func(s *sickServer) {
		s.do("ACL", "SETUSER", "app", "-@all", "+ping")
	}},
	{"denies the channels", func(s *sickServer) { s.do("ACL", "SETUSER", "app", "resetchannels") }},
	{"is of a cluster that is down", func(s *sickServer) { s.loseSlot("{shop}") }},
	{"is of a cluster without the slot", func(s *sickServer) {
		s.do("CONFIG", "SET", "cluster-require-full-coverage", "no")
		s.loseSlot("{mail}")
	}},
}

// A sickServer is a server that gets into trouble.
type sickServer struct {
	*checkedServer
	*testkit.Server
}

// load makes the server load its data for longer than the test takes.
func (s *sickServer) load() {
	for i := range 2000 {
		require.NoError(s.t, s.rdb.Set(s.t.Context(), fmt.Sprint("key", i), strings.Repeat("x", 1024), 0).Err())
	}
	s.do("CONFIG", "SET", "rdbcompression", "no", "key-load-delay", 50_000,
		"loading-process-events-interval-bytes", 1024)
	go func() { _ = s.Client(s.t).Do(context.Background(), "DEBUG", "RELOAD").Err() }()
	testkit.Until(s.t, "the server loads", func() bool {
		return redis.IsLoadingError(s.rdb.Get(s.t.Context(), "key").Err())
	})
}

func TestHealthIsAsTheTableSays(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
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
		return &sickServer{checkedServer: newClusterNode(t)}
	}
	server := testkit.Start(t, "--enable-debug-command", "yes")
	s := &sickServer{&checkedServer{&env{t: t}, server.Client(t)}, server}
	s.do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	s.url = "redis://app:secret@" + server.Addr()
	return s
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
	command := s.command("serve", "--workq", anywhere, "--timeout", "2s")
	out, err := command.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, command.Start())
	listens := bufio.NewScanner(out).Scan()
	if listens {
		require.NoError(s.t, command.Process.Kill())
	}
	_ = command.Wait()
	if listens {
		return "serves"
	}
	return fmt.Sprint(command.ProcessState.ExitCode())
}

// worker starts a worker, and waits until the server has answered it.
func (s *sickServer) worker() *qless.Worker {
	config := &qless.ClientConfig{Logger: testkit.Quiet()}
	if s.environ != nil {
		config.Namespace = "{mail}:ql:"
	}
	client, err := qless.Dial(s.t.Context(), s.url, config)
	require.NoError(s.t, err)
	_, err = client.Queue("mail").Put(s.t.Context(), "Mail", nil)
	require.NoError(s.t, err)
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"mail"}, PollInterval: time.Second,
	})
	require.NoError(s.t, err)
	worker.Handle("Mail", nothing)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	s.t.Cleanup(func() {
		if s.Server != nil {
			s.Kill() // otherwise a stopping worker waits for the hanging server
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
	code := ""
	for _, known := range []qless.Code{qless.ErrUnavailable, qless.ErrServer} {
		if errors.Is(worker.Healthy(), known) {
			code = map[qless.Code]string{
				qless.ErrUnavailable: "`ErrUnavailable`", qless.ErrServer: "`ErrServer`"}[known]
		}
	}
	return cmp.Or(code, "nil")
}
