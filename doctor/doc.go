// Package doctor finds problems.
//
// [Explain] explains why the jobs of a queue wait. [ReadStatus] lists the problems of a namespace.
// [Examine] reads a whole namespace and reports damage, and dangers in its settings and its server.
// [Fix] repairs the findings that can be repaired safely. Results are typed, and have sentences for
// people to read.
package doctor
