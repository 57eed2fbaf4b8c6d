// Package servers checks what the project says about other versions of the server. Its scripts
// fetch them, and run the tests of other packages on each.
package servers
