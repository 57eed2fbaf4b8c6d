// Package security tests the claims of docs/security.md: connections with TLS, and users with
// exactly the necessary rights. It contains only tests.
//
// The rules of the users are read from the page itself.
package security
