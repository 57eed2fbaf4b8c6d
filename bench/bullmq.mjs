// A session of BullMQ, driven by JSON lines: requests on standard input, replies on standard
// output. Usage: node bullmq.mjs PORT PAYLOAD, with bullmq and ioredis installed beside it.
import { createInterface } from 'node:readline';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const [port, payload] = process.argv.slice(2);
const data = JSON.parse(payload);
const connection = { host: '127.0.0.1', port: Number(port) };
const queue = new Queue('bench', { connection });
const asking = new Redis(connection);
const workers = [];

let handled = 0;
let atHandled = () => {};

// Puts jobs from several concurrent loops, one or a hundred per call.
async function enqueue({ jobs, concurrency, bulk }) {
  let left = jobs;
  const size = bulk ? 100 : 1;
  const loop = async () => {
    while (left > 0) {
      const count = Math.min(left, size);
      left -= count;
      if (bulk) {
        await queue.addBulk(Array.from({ length: count }, () => ({ name: 'Bench', data })));
      } else {
        await queue.add('Bench', data);
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
}

async function work({ concurrency, count }) {
  for (let i = 0; i < count; i++) {
    const handle = async () => { handled++; atHandled(); };
    const worker = new Worker('bench', handle, { connection, concurrency });
    worker.on('error', (err) => { throw err; });
    workers.push(worker);
  }
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
}

// Waits until the given number of jobs has been handled.
function wait({ jobs }) {
  return new Promise((resolve) => {
    atHandled = () => { if (handled >= jobs) resolve({ handled }); };
    atHandled();
  });
}

async function done() {
  return { done: await asking.zcard('bull:bench:completed') };
}

// Puts one job at a time for idle workers, and returns the milliseconds from put to handler.
async function pickups({ jobs, gap }) {
  const waits = [];
  for (let i = 0; i < jobs; i++) {
    if (gap) await new Promise((resolve) => setTimeout(resolve, gap));
    const start = performance.now();
    const taken = new Promise((resolve) => { atHandled = () => resolve(performance.now()); });
    await queue.add('Bench', data);
    waits.push(await taken - start);
  }
  return { waits };
}

// Puts jobs at a rate, and returns the same. It assumes that jobs are taken in the order of their
// puts.
function pace({ jobs, rate }) {
  const puts = [], takes = [], began = performance.now();
  return new Promise((resolve) => {
    atHandled = () => {
      takes.push(performance.now());
      if (takes.length === jobs) resolve({ waits: takes.map((at, i) => at - puts[i]) });
    };
    const putDue = () => {
      const due = Math.min(jobs, 1 + Math.floor((performance.now() - began) * rate / 1000));
      while (puts.length < due) {
        puts.push(performance.now());
        queue.add('Bench', data);
      }
      if (puts.length < jobs) setTimeout(putDue, 1);
    };
    putDue();
  });
}

async function close() {
  await Promise.all(workers.map((worker) => worker.close()));
  await queue.close();
  asking.disconnect();
}

const requests = { enqueue, work, wait, done, pickups, pace, close };
await queue.waitUntilReady();
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  console.log(JSON.stringify(await requests[request.do](request) ?? {}));
  if (request.do === 'close') process.exit(0);
}
