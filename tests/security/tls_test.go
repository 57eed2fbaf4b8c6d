package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/tour"
)

// An authority signs certificates.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign creates a certificate, and writes it and its key to files.
func (a *authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	a.write(name+".crt", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", secret)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	require.NoError(a.t, os.WriteFile(a.file(name), text, 0o600))
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// freePort returns a port without a listener.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return port
}

// The server accepts only TLS connections from clients with a certificate of its authority.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	cert, key := a.sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	port := freePort(t)
	plain := testkit.Start(t, "--port", "0", "--tls-port", port, "--tls-ca-cert-file", a.file("ca.crt"),
		"--tls-cert-file", a.file("server.crt"), "--tls-key-file", a.file("server.key"))
	addr := "127.0.0.1:" + port
	ctx := t.Context()

	trusted := x509.NewCertPool()
	trusted.AddCert(a.cert)
	own := tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	rdb := redis.NewClient(&redis.Options{
		Addr:      addr,
		TLSConfig: &tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12},
	})
	defer func() { _ = rdb.Close() }()
	c := newClient(t, rdb)
	tour.Furnish(t, c)
	tour.Dashboard(t, c)
	tour.Client(t, c)
	tour.Worker(t, c, c)

	for name, config := range map[string]*tls.Config{
		"no certificate":       {RootCAs: trusted},
		"an unknown authority": {Certificates: []tls.Certificate{own}},
	} {
		stranger := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config, MaxRetries: -1})
		_, err := newClient(t, stranger).Queue("q").Counts(ctx)
		require.ErrorIs(t, err, qless.ErrUnavailable, name)
		require.NoError(t, stranger.Close())
	}
	for _, url := range []string{"rediss://" + addr, "redis://" + addr, "redis://" + plain.Addr()} {
		_, err := qless.Dial(ctx, url, nil)
		require.ErrorIs(t, err, qless.ErrUnavailable, url)
	}
}
