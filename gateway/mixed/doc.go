// Package mixed tests both gateways together, in front of one real Redis. It has tests only.
//
// The test binary runs itself again as gateways for lmstfy and Workq, and as programs that put and
// work jobs: one kind speaks lmstfy's protocol, one Workq's, and one uses package qless. With the
// build tag interop, a fourth one uses the client of qless for Python. Each works jobs that the
// others put, as far as the data allows:
//
//   - all put jobs into the queue of the lmstfy gateway, and work them, except programs of Workq;
//   - those of qless and Python also put jobs into the queues of the Workq gateway, and work them;
//   - a program of lmstfy gets jobs of Workq clients from workers that pass them on.
//
// Meanwhile processes of every kind are killed at random and started again. In the end, each job
// whose put was acknowledged must have been run to its end and be complete; nothing may be locked,
// and the keys must agree with each other.
//
// The test prints its seed; QLESS_SEED repeats one. The flag -mixed.for sets for how long processes
// are killed.
package mixed
