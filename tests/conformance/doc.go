// Package conformance replays recorded traces of the stock qless script against the scripts of this
// module. It contains only tests.
//
// The drop-in must be exact: replies and messages are the same, except for the order of fields and
// of members of sets in replies, and of fields in messages on a server with another order in cjson
// than in the recording. The traces contain only the areas of errors; a table has the words.
//
// For the single commands, and for the keys, two values are equal if no client can rely on their
// difference:
//   - Replies and stored values that are JSON are compared as JSON; {} and [] are the same,
//     and dependents and dependencies are sets.
//   - Numbers, also those written as text, may differ by 1e-12 of their size or by 1e-6;
//     scores by 1e-14.
//   - An error must be an error, with the same area, such as Put(); the wording is free.
//   - The events of a step are the same, in any order.
//   - The keys are the same after the last step, whatever their expiry. A tag that no job
//     has may stay in ql:tags with the score 0, or go.
//   - Extensions are ignored: keys and channels under ql:x:, and fields under x:.
//
// The drop-in differs on purpose in cases not covered by any trace: jobs complete takes the name of
// a queue, as sent by PHP clients, and meaningless numbers are refused or, as settings, count as
// not set. docs/sharing.md lists the differences.
//
// The traces of qless-php's script also omit the keys kept only by that script, and the keys listed
// as free in a trace. Replies of tags, and the lists in the replies of subscription all, are sets.
package conformance
