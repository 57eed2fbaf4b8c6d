// Package hosts distinguishes requests from a browser to a server of this module from requests for
// the page of another site with a name that leads to the same address.
package hosts

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Allows reports whether a request may name a host: an address, a name of this machine, or one of
// names. A page can't make a browser send a host other than its own, and the name of its site,
// which may lead anywhere, is not allowed. A request without a host does not come from a browser.
func Allows(host string, names []string) bool {
	if host == "" {
		return true
	}
	host = bare(host)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return bare(name) == host })
}

// bare returns a host without its port, in lower case.
func bare(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// IsLocal reports whether a request came over the loopback interface.
func IsLocal(r *http.Request) bool {
	address, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return IsLoopback(address)
}

// IsLoopback reports whether an address belongs to the loopback interface.
func IsLoopback(address net.Addr) bool {
	tcp, isTCP := address.(*net.TCPAddr)
	return isTCP && tcp.IP.IsLoopback()
}
