// Package api tests the client's methods on real servers.
package api
