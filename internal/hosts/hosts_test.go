package hosts

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllows(t *testing.T) {
	names := []string{"jobs.example.com", "Ops.Example.com:8443"}
	for _, host := range []string{
		"", "localhost", "LOCALHOST:8080", "localhost.", "jobs.localhost", "127.0.0.1", "127.0.0.1:80",
		"10.1.2.3:9090", "[::1]", "[::1]:8080", "[fe80::1%25eth0]:80", "[2001:db8::1]:80",
		"jobs.example.com", "JOBS.example.com:80", "jobs.example.com.", "ops.example.com",
	} {
		require.True(t, Allows(host, names), host)
	}
	for _, host := range []string{
		"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
		"notlocalhost", "example.com", "a.jobs.example.com", "2130706433", "0x7f.1",
		"evil.example:", ":80:80", "[evil.example]:80", ".",
	} {
		require.False(t, Allows(host, names), host)
	}
	require.False(t, Allows("jobs.example.com", nil))
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.8.0.1": true, "::1": true, "0.0.0.0": false, "::": false,
		"10.0.0.1": false,
	} {
		require.Equal(t, want, IsLoopback(&net.TCPAddr{IP: net.ParseIP(address)}), address)
	}
	require.False(t, IsLoopback(&net.UnixAddr{Name: "/tmp/x", Net: "unix"}))
	require.False(t, IsLoopback(nil))
}

func FuzzHosts(f *testing.F) {
	for _, host := range []string{
		"localhost:1", "[::1]:2", "[::1", "evil.example", "a.localhost.", "",
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if Allows(host, nil) && strings.HasSuffix(host, ".example") {
			t.Errorf("%q is taken", host)
		}
	})
}
