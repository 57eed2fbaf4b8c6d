// Package model tests the queue against a model of it.
//
// Random steps of three workers on a few queues and jobs go to a real Redis server by the public
// API of package qless, and to a model in Go that knows nothing of scripts or keys. After every
// step the test reads all keys of the namespace, and checks
//
//   - the reply, or the code of the error, against the model's;
//   - what must hold of the keys whatever happened: a job is in the sets that its state names and
//     in no other, no set names a job that is gone, dependencies, tags, failure groups and
//     statistics agree with the jobs (invariants_test.go; what the layout leaves behind on
//     purpose is in pinned_test.go);
//   - every job, lock, list and count against the model's (compare_test.go).
//
// A Worker takes no part: how it overlaps its calls can't be followed in step. Its scripts are made
// of the pieces that these calls are made of.
//
// Steps of another kind are any commands with any options, by our scripts and by the drop-in as
// other clients call it. No model predicts them, but rules state the invariants of the keys after
// each (rules_test.go), and in the end all jobs are worked off, so that none may wait for ever, and
// no useless key may stay (mixed_test.go). Fuzz tests give the same commands arguments of all sorts
// and damaged options: they are done, or refused as a whole (arguments_test.go).
//
// When a check fails, that is printed at once with the seed. Then the steps are reduced to a
// minimal list that still fails in the same way, as far as that goes in less than a minute.
//
//	go test -race ./tests/model                                   20 000 steps
//	make model                                                    200 000, or MODEL_STEPS
//	go test ./tests/model -run Forward -model.seed 7              a run that failed, again
//	go test ./tests/model -fuzz FuzzArguments -fuzztime 1m        any arguments, for a minute
//	go test ./tests/model -model.back                             the clock goes back in all runs
//
// Steps come in runs of 2000, each on an empty server. The first run has the given seed, the next
// one the seed after that, and so on; a failure names the seed of its run.
package model
