// Package worker tests workers, and the scripts that serve them, on real servers.
package worker
