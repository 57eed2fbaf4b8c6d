// Package doctor looks for what is wrong.
//
// [Why] explains what a queue waits for. [Examine] reads a whole namespace and reports damage, and
// dangers in its settings and its server, and [Fix] repairs what can be repaired safely. Each has
// typed results, with sentences for people to read.
package doctor
