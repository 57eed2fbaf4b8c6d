// Package mixed tests both gateways together, in front of one real Redis. It contains only tests.
//
// The test binary runs copies of itself as gateways for lmstfy and Workq, and as programs that put
// and run jobs: one kind speaks lmstfy's protocol, one Workq's, and one uses package qless. With
// the build tag interop, a fourth kind uses qless's Python client. Each kind runs jobs put by the
// others, as far as the data allows:
//
//   - all put jobs into the queue of the lmstfy gateway, and work them, except programs of Workq;
//   - qless and Python programs also put jobs into the Workq gateway's queues, and work them;
//   - a program of lmstfy gets jobs of Workq clients from workers that pass them on.
//
// Meanwhile, processes of every kind are killed at random and restarted. In the end, each job with
// an acknowledged put must have run to its end and be complete. No job may be locked, and the keys
// must agree with each other.
//
// The test prints its seed; QLESS_SEED repeats a run. The flag -mixed.for sets how long processes
// are killed.
package mixed
