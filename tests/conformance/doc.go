// Package conformance holds tests that replay recorded traces of the stock qless script
// against the scripts of this module.
//
// The drop-in has to be exact: its replies and messages are the same, except for the order of
// fields and of members of sets in replies. The traces have only the areas of errors; the words are
// in a table.
//
// For the single commands, and for the keys, two things are equal when no client can rely on their
// difference:
//   - Replies and stored values that are JSON are compared as JSON; {} and [] are the same,
//     and dependents and dependencies are sets.
//   - Numbers, also those written as text, may differ by 1e-12 of their size or by 1e-6;
//     scores by 1e-14.
//   - An error has to be an error, with the same area, such as Put(); its wording is free.
//   - The events of a step are the same, in any order.
//   - The keys are the same after the last step, whatever their expiry. A tag that no job
//     has may stay in ql:tags with the score 0, or go.
//   - Extensions are not looked at: keys and channels under ql:x:, and fields under x:.
//
// On purpose, the drop-in differs where no trace looks: jobs complete takes the name of a queue, as
// clients in PHP send it; numbers that make no sense are refused, or, as a setting, count as not
// set. docs/sharing.md lists these.
//
// The traces of the script of qless-php also leave out the keys that only it keeps, and the ones
// that a trace names as free. Replies of tags, and the lists in those of subscription all, are
// sets.
package conformance
