// Package security tests what docs/security.md says: connections by TLS, and users who may do what
// they need and nothing more. It has tests only.
//
// The rules of the users are read from the page itself.
package security
