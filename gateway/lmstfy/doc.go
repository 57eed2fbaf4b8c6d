// Package lmstfy is a server that speaks the HTTP API of lmstfy in front of qless. Clients of
// lmstfy need no change; their jobs are qless jobs, which workers in Go, Ruby, Python and PHP can
// see, and work.
//
// A job of the namespace ns and the queue q is in the queue "ns/q". Its klass is [Klass], and its
// data is {"body": "..."}, in base64. Jobs that a client of qless puts into such a queue are given
// to consumers as well: the body is then the job's data, as JSON.
//
// [New] is for programs that have the server inside. The command qless serve lmstfy
// reads the configuration file of lmstfy's own server: see [LoadFile].
package lmstfy
