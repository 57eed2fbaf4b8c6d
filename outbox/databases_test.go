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
	"sync"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// A cluster is a PostgreSQL server that all tests share. Each test has a database of its own.
type cluster struct {
	folder string
	port   int
	server *exec.Cmd
	log    bytes.Buffer
	count  int
}

var started struct {
	sync.Mutex
	cluster *cluster
}

// postgres returns the URL of a new database.
func postgres(t *testing.T) string {
	t.Helper()
	started.Lock()
	defer started.Unlock()
	if started.cluster == nil {
		c, err := startCluster()
		require.NoError(t, err)
		started.cluster = c
	}
	c := started.cluster
	admin, err := sql.Open("pgx", c.url("postgres"))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close()) }()
	testkit.Until(t, "postgres answers", func() bool { return admin.PingContext(t.Context()) == nil })
	c.count++
	name := fmt.Sprintf("test%d", c.count)
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	return c.url(name)
}

func (c *cluster) url(database string) string {
	return fmt.Sprintf("postgres://qless@127.0.0.1:%d/%s?sslmode=disable", c.port, database)
}

// startCluster starts a server in a folder of its own.
func startCluster() (c *cluster, err error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	for _, folder := range programs { // where Debian puts them
		_ = os.Setenv("PATH", os.Getenv("PATH")+":"+folder)
	}
	if _, err := exec.LookPath("initdb"); err != nil {
		return nil, errors.New("the tests need PostgreSQL: run .ci/install postgres")
	}
	c = &cluster{}
	if c.folder, err = os.MkdirTemp("", "outbox-postgres"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(c.folder)
		}
	}()
	as, err := c.owner()
	if err != nil {
		return nil, err
	}
	make := exec.Command("initdb", "-D", c.folder+"/data", "-U", "qless", "-A", "trust", "-E", "UTF8", "-N")
	make.SysProcAttr, make.Dir = as, c.folder
	if text, err := make.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, text)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.port = free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	c.server = exec.Command("postgres", "-D", c.folder+"/data", "-p", strconv.Itoa(c.port),
		"-k", c.folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off")
	c.server.SysProcAttr, c.server.Dir = as, c.folder
	c.server.Stdout, c.server.Stderr = &c.log, &c.log
	return c, c.server.Start()
}

// owner returns the user of the server, who owns its folder: PostgreSQL refuses to run as root.
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

// stopCluster stops the server, if there is one.
func stopCluster() {
	if c := started.cluster; c != nil {
		_ = c.server.Process.Signal(syscall.SIGQUIT) // at once, as nothing is kept
		_ = c.server.Wait()
		_ = os.RemoveAll(c.folder)
	}
}
