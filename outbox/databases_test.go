package outbox

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// A cluster is a database server shared by all tests. Each test has a separate database.
type cluster struct {
	dialect Dialect
	folder  string
	port    int
	program []string
	server  *exec.Cmd
	log     bytes.Buffer
	count   int
}

var started struct {
	sync.Mutex
	clusters map[Dialect]*cluster
}

// clusterOf returns the server of a dialect, started for the first test.
func clusterOf(t *testing.T, dialect Dialect) *cluster {
	t.Helper()
	if c := started.clusters[dialect]; c != nil {
		return c
	}
	start := startPostgres
	if dialect == MySQL {
		start = startMariaDB
	}
	c := must(start())(t)
	if started.clusters == nil {
		started.clusters = map[Dialect]*cluster{}
	}
	started.clusters[dialect] = c
	return c
}

// newDatabase returns the URL of a new database.
func newDatabase(t *testing.T, dialect Dialect) string {
	t.Helper()
	started.Lock()
	defer started.Unlock()
	c := clusterOf(t, dialect)
	admin, err := sql.Open(drivers[dialect], c.url(map[Dialect]string{Postgres: "postgres", MySQL: "mysql"}[dialect]))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close()) }()
	testkit.Until(t, "the database answers", func() bool { return admin.PingContext(t.Context()) == nil })
	c.count++
	name := fmt.Sprintf("test%d", c.count)
	must(admin.ExecContext(t.Context(), "CREATE DATABASE "+name))(t)
	return c.url(name)
}

func (c *cluster) url(database string) string {
	if c.dialect == MySQL {
		return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s", c.port, database)
	}
	return fmt.Sprintf("postgres://qless@127.0.0.1:%d/%s?sslmode=disable", c.port, database)
}

// run starts the server.
func (c *cluster) run() error {
	c.server = exec.Command(c.program[0], c.program[1:]...)
	as, err := c.owner()
	if err != nil {
		return err
	}
	c.server.SysProcAttr, c.server.Dir = as, c.folder
	c.server.Stdout, c.server.Stderr = &c.log, &c.log
	return c.server.Start()
}

// kill kills the server.
func (c *cluster) kill() {
	signal := syscall.SIGQUIT // PostgreSQL also ends its other processes
	if c.dialect == MySQL {
		signal = syscall.SIGKILL
	}
	_ = c.server.Process.Signal(signal)
	_ = c.server.Wait()
}

// prepare makes the folder of the server, with a command, and chooses its port.
func (c *cluster) prepare(command ...string) (err error) {
	if c.folder, err = os.MkdirTemp("", "outbox-"+string(c.dialect)); err != nil {
		return err
	}
	as, err := c.owner()
	if err != nil {
		return err
	}
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "FOLDER", c.folder)
	}
	install := exec.Command(command[0], command[1:]...)
	install.SysProcAttr, install.Dir = as, c.folder
	if text, err := install.CombinedOutput(); err != nil {
		_ = os.RemoveAll(c.folder)
		return fmt.Errorf("%s: %w: %s", command[0], err, text)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.port = free.Addr().(*net.TCPAddr).Port
	return free.Close()
}

func startMariaDB() (*cluster, error) {
	if _, err := exec.LookPath("mariadbd"); err != nil {
		return nil, errors.New("the tests need MariaDB: run .ci/install databases")
	}
	c := &cluster{dialect: MySQL}
	if err := c.prepare("mariadb-install-db", "--no-defaults", "--datadir=FOLDER/data",
		"--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return nil, err
	}
	c.program = []string{"mariadbd", "--no-defaults", "--datadir=" + c.folder + "/data",
		"--port=" + strconv.Itoa(c.port), "--bind-address=127.0.0.1", "--socket=" + c.folder + "/socket",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
		"--innodb-lock-wait-timeout=5"}
	return c, c.run()
}

func startPostgres() (*cluster, error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	for _, folder := range programs { // where Debian puts them
		_ = os.Setenv("PATH", os.Getenv("PATH")+":"+folder)
	}
	if _, err := exec.LookPath("initdb"); err != nil {
		return nil, errors.New("the tests need PostgreSQL: run .ci/install databases")
	}
	c := &cluster{dialect: Postgres}
	if err := c.prepare("initdb", "-D", "FOLDER/data", "-U", "qless", "-A", "trust", "-E", "UTF8", "-N"); err != nil {
		return nil, err
	}
	c.program = []string{"postgres", "-D", c.folder + "/data", "-p", strconv.Itoa(c.port),
		"-k", c.folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"}
	return c, c.run()
}

// owner returns the user of the server, the owner of its folder: PostgreSQL refuses to run as root.
func (c *cluster) owner() (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	other, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(other.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(other.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}, os.Chown(c.folder, uid, gid)
}

// stopServers stops the servers at once, as nothing is kept.
func stopServers() {
	for _, c := range started.clusters {
		c.kill()
		_ = os.RemoveAll(c.folder)
	}
}
