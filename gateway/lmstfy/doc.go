// Package lmstfy is a server that speaks the HTTP API of lmstfy in front of qless. Clients of
// lmstfy need no change. Their jobs are qless jobs, which workers in Go, Ruby, Python and PHP can
// see and run.
//
// A job of the namespace ns and the queue q is in the queue "ns/q". Its klass is [Klass], and its
// data is {"body": "..."}, in base64. Consumers also get the jobs that clients of qless put into
// such a queue: the body is then the job's data, as JSON.
//
// [New] embeds the server in a program. The command qless serve lmstfy reads the configuration file
// of lmstfy's own server: see [LoadFile].
package lmstfy
