package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// StartSentinel starts a sentinel for a test, and stops it when the test ends. The sentinel
// monitors the master at an address, which counts as down when two sentinels agree. The sentinel
// listens on addr, or on a free loopback port if addr is empty, and runs under program, as in
// [LaunchUnder]. StartSentinel returns the sentinel's address.
func StartSentinel(t testing.TB, program []string, addr, master string) string {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	binary, err := findBinary()
	fail(err)
	if addr == "" {
		addr, err = freeAddr()
		fail(err)
	}
	host, port, err := net.SplitHostPort(addr)
	fail(err)
	masterHost, masterPort, err := net.SplitHostPort(master)
	fail(err)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	fail(os.WriteFile(file, []byte(fmt.Sprintf(`bind %s
port %s
protected-mode no
sentinel monitor %[3]s %[4]s %[5]s 2
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 5000
`, host, port, MasterName, masterHost, masterPort)), 0o600))
	words := append(program[:len(program):len(program)], binary, file, "--sentinel")
	sentinel := exec.Command(words[0], words[1:]...)
	fail(sentinel.Start())
	t.Cleanup(func() {
		_ = sentinel.Process.Kill()
		_ = sentinel.Wait()
	})
	return addr
}

// MasterName is the name of the monitored master.
const MasterName = "jobs"
