// Package model tests the queue against a model.
//
// Random steps of three workers on a few queues and jobs are run on a real Redis server, through
// the public API of package qless, and on a model in Go that knows nothing of scripts or keys.
// After every step, the test reads all keys of the namespace, and checks
//
//   - the reply, or the code of the error, against the model's;
//   - what must hold of the keys whatever happened: a job is in the sets that its state names and
//     in no other, no set names a job that is gone, dependencies, tags, failure groups and
//     statistics agree with the jobs (invariants_test.go; what the layout leaves behind on
//     purpose is in pinned_test.go);
//   - every job, lock, list and count against the model's (compare_test.go).
//
// No Worker is involved, because a model can't follow a Worker's overlapping calls. The scripts of
// a Worker consist of the same pieces as these calls.
//
// Steps of another kind are any commands with any options, through our scripts and through the
// drop-in as other clients call it. No model predicts them, but rules state the invariants of the
// keys after each step (rules_test.go). In the end all jobs are run: no job may wait forever, and
// no useless key may stay (mixed_test.go). Fuzz tests give the same commands arbitrary arguments
// and damaged options: each is done or refused as a whole (arguments_test.go).
//
// A failed check is printed at once, with the seed. Then the steps are reduced, for up to a minute,
// to a minimal list that still fails in the same way.
//
//	go test -race ./tests/model                                   20 000 steps
//	make model                                                    200 000, or MODEL_STEPS
//	go test ./tests/model -run Forward -model.seed 7              a run that failed, again
//	go test ./tests/model -fuzz FuzzArguments -fuzztime 1m        any arguments, for a minute
//	go test ./tests/model -model.back                             the clock goes back in all runs
//
// Steps come in runs of 2000, each on an empty server. The first run has the given seed, the next
// one the following seed, and so on. A failure includes the seed of its run.
package model
