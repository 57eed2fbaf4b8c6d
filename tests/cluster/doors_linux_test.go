package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// url returns the URL of the sentinels.
func (g *guarded) url() string {
	return fmt.Sprintf("redis://%s?master_name=%s&addr=%s&addr=%s",
		g.sentinels[0], testkit.MasterName, g.sentinels[1], g.sentinels[2])
}

// url returns the URL of the cluster.
func (c *nodes) url() string {
	url := "redis://" + c.all[0].Addr() + "?cluster=true"
	for _, n := range c.all[1:] {
		url += "&addr=" + n.Addr()
	}
	return url
}

func TestEveryDoorTakesSentinels(t *testing.T) {
	g := startGuarded(t)
	d := openDoors(t, g.url(), "ql:")
	d.allWork("one")
	g.master.Kill()
	g.promoted()
	d.allWork("xyz")
}

func TestEveryDoorTakesACluster(t *testing.T) {
	c := startNodes(t, true)
	d := openDoors(t, c.url(), "{doors}:ql:")
	d.allWork("one")
	for _, words := range []string{"status", "queue ls"} { // also for several namespaces together
		out, err := d.run(t.Context(), append(strings.Fields(words), "--namespace", "{door*}:ql:")...)
		require.NoError(t, err)
		require.Contains(t, out, "lmstfy/one")
		require.Contains(t, out, "NAMESPACES")
	}
	master := c.masterOf(c.slotOf("doors"))
	replica := c.replicaOf(master)
	master.Kill()
	c.promoted(replica)
	d.allWork("xyz")
}

func TestDialWantsAHashTagOnACluster(t *testing.T) {
	c := startNodes(t, false)
	for _, url := range []string{c.url(), "redis://" + c.all[0].Addr()} {
		_, err := qless.Dial(t.Context(), url, nil)
		require.ErrorIs(t, err, qless.ErrInvalid)
		require.ErrorContains(t, err, `namespace "ql:" has no hash tag, as in "{tenant}:ql:"`)
	}
}

func TestSentinelsAndClustersAreNotMixedUp(t *testing.T) {
	g := startGuarded(t)
	for url, hint := range map[string]string{
		"redis://" + g.sentinels[0] + "?master_name=other":  "no master of the name",
		"redis://" + g.master.Addr() + "?master_name=jobs":  "not a sentinel: leave out master_name",
		"redis://" + g.master.Addr() + "?cluster=true":      "leave out cluster=true",
		"redis://127.0.0.1:1?master_name=jobs":              "no sentinel answers",
		"redis://127.0.0.1:1?cluster=true&addr=127.0.0.1:2": "connection refused",
	} {
		_, err := qless.Dial(t.Context(), url, &qless.ClientConfig{Namespace: "{a}:ql:", Logger: quiet()})
		require.ErrorContains(t, err, hint)
	}
}

// doors are the programs that open a queue to other programs, all on one server.
type doors struct {
	t       *testing.T
	program string
	flags   []string
	client  *qless.Client
	addrs   map[string]string
	screen  *screen // the screen of qless top
	copies  int
}

// openDoors starts the programs, and ends them with the test.
func openDoors(t *testing.T, url, namespace string) *doors {
	t.Helper()
	client, err := qless.Dial(t.Context(), url, &qless.ClientConfig{Namespace: namespace})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	d := &doors{
		t: t, program: filepath.Join(t.TempDir(), "qless"), client: client,
		flags: []string{"--redis", url, "--namespace", namespace}, addrs: map[string]string{},
	}
	build := exec.Command("go", "build", "-o", d.program, "./qless")
	build.Dir = "../../cmd"
	build.Env = append(os.Environ(), "GOWORK=auto")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	const free = "127.0.0.1:0"
	lines := bufio.NewScanner(d.start(d.program, append(d.flags, "serve", "--lmstfy", free, "--skip-tokens",
		"--workq", free, "--web", free, "--metrics", free)...))
	for len(d.addrs) < 4 && lines.Scan() {
		if name, addr, found := strings.Cut(lines.Text(), " listening on "); found {
			d.addrs[name] = addr
		}
	}
	require.Len(t, d.addrs, 4)
	d.screen = &screen{}
	// The program requires a terminal, provided by script.
	top := fmt.Sprintf("stty rows 40 cols 120; exec %s %s --redis '%s' --namespace '%s' --every 200ms",
		d.program, "top", url, namespace)
	go d.screen.readFrom(d.start("script", "-qec", top, "/dev/null"))
	return d
}

// start starts a program that runs until the test ends, and returns its output.
func (d *doors) start(name string, args ...string) io.Reader {
	d.t.Helper()
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), "TERM=xterm")
	keys, err := command.StdinPipe() // must stay open, or script ends
	require.NoError(d.t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, command.Start())
	d.t.Cleanup(func() {
		_ = keys.Close()
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	return stdout
}

// allWork waits until each door has handled a job or a page, in queues with a name.
func (d *doors) allWork(name string) {
	d.t.Helper()
	type door struct {
		name string
		use  func(ctx context.Context) error
	}
	for _, door := range []door{
		{"lmstfy", func(ctx context.Context) error { return d.publish(ctx, name) }},
		{"workq", func(ctx context.Context) error { return d.add(ctx, name) }},
		{"web", func(ctx context.Context) error { return d.get(ctx, "web", "/", "lmstfy/"+name) }},
		{"metrics", func(ctx context.Context) error {
			return d.get(ctx, "metrics", "/metrics", "lmstfy/"+name)
		}},
		{"the command line", func(ctx context.Context) error {
			out, err := d.run(ctx, "queue", "ls")
			if err == nil && !strings.Contains(out, "lmstfy/"+name) {
				return fmt.Errorf("not listed: %s", out)
			}
			return err
		}},
		{"doctor", func(ctx context.Context) error {
			_, err := d.run(ctx, "doctor")
			return err
		}},
		{"dump and restore", func(ctx context.Context) error { return d.copy(ctx, name) }},
		{"check server", func(ctx context.Context) error {
			_, err := d.run(ctx, "check", "server", "--crit", "ping=1m", "--warn", "ping=1m")
			return err
		}},
		{"top", func(context.Context) error {
			// Only changes are drawn, so the names have no letters in common.
			if !d.screen.has(name) {
				return errors.New("not on the screen")
			}
			return nil
		}},
	} {
		var err error
		until(d.t, door.name, func(ctx context.Context) bool {
			failed := door.use(ctx)
			if ctx.Err() == nil {
				err = failed
			} else {
				d.t.Log(door.name, err)
			}
			return failed == nil
		})
	}
}

// publish publishes a job through the lmstfy API.
func (d *doors) publish(ctx context.Context, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut,
		"http://"+d.addrs["lmstfy"]+"/api/lmstfy/"+name, strings.NewReader("data"))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("publish: %s", answer.Status)
	}
	return nil
}

// add adds a job through the Workq protocol.
func (d *doors) add(ctx context.Context, name string) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", d.addrs["workq"])
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	fmt.Fprintf(connection, "add %s %s 60000 600000 4\r\ndata\r\n", uuid.NewString(), name)
	answer, err := bufio.NewReader(connection).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "+OK") {
		return fmt.Errorf("add: %s", answer)
	}
	return err
}

// get gets a page. The page must contain a text.
func (d *doors) get(ctx context.Context, door, path, text string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addrs[door]+path, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Contains(page, []byte(text))) {
		return fmt.Errorf("%s: no %s on the page", answer.Status, text)
	}
	return err
}

// run runs a command and returns its output.
func (d *doors) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, d.program, append(d.flags, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return string(out), nil
}

// copy restores a dump into a separate namespace, probably on another node.
func (d *doors) copy(ctx context.Context, name string) error {
	file, err := os.Create(filepath.Join(d.t.TempDir(), "ql.dump"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	dump := exec.CommandContext(ctx, d.program, append(d.flags, "dump")...)
	dump.Stdout = file
	if err := dump.Run(); err != nil {
		return err
	}
	d.copies++
	other := []string{"--namespace", fmt.Sprintf("{%s-%d}:ql:", name, d.copies)}
	if _, err := d.run(ctx, append(other, "restore", file.Name())...); err != nil {
		return err
	}
	out, err := d.run(ctx, append(other, "queue", "ls")...)
	if err == nil && !strings.Contains(out, "lmstfy/"+name) {
		return fmt.Errorf("not listed: %s", out)
	}
	return err
}

// A screen collects all drawing of a program.
type screen struct {
	mu    sync.Mutex
	drawn bytes.Buffer
}

func (s *screen) readFrom(r io.Reader) {
	page := make([]byte, 4096)
	for {
		n, err := r.Read(page)
		s.mu.Lock()
		s.drawn.Write(page[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.drawn.Bytes(), []byte(text))
}
