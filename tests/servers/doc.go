// Package servers checks the project's claims about other versions of the server. Its scripts fetch
// these versions, and run the tests of other packages on each.
package servers
