// A peer of the tests: the redis-work-queue of npm as an adder, a worker or a cleaner.
//
//	peer.js PORT PREFIX add NAME COUNT
//	peer.js PORT PREFIX work SEED LEASE
//	peer.js PORT PREFIX clean
//
// It reports its actions in lines on its standard output. NODE_PATH is the client's folder.
'use strict';

const fs = require('fs');
const readline = require('readline');
const Redis = require('ioredis');
// The package's main file is TypeScript, which Node can't load.
const {WorkQueue, KeyPrefix, Item} = require('@mevitae/redis-work-queue/dist/WorkQueue.js');

const [port, prefix, role, ...args] = process.argv.slice(2);

// The line is written when this returns, so that even a killed process has reported its actions.
function tell(...words) {
  fs.writeSync(1, words.join(' ') + '\n');
}

// randomFrom returns a source of random numbers between 0 and 1.
function randomFrom(seed) {
  let state = Number(BigInt(seed) % 2147483646n) + 1;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}

async function add(db, queue, name, count) {
  for (let i = 0; i < Number(count); i++) {
    const id = `${name}-${i}`;
    await queue.addItem(db, new Item(`data of ${id}`, id));
    tell('added', id);
  }
}

async function work(db, queue, seed, lease) {
  const random = randomFrom(seed);
  for (;;) {
    const item = await queue.lease(db, Number(lease), true, 1);
    if (item === null) continue;
    if (item.data.length === 0) { // what this version makes of an id without data
      tell('ghost', item.id);
      await queue.complete(db, item);
      continue;
    }
    tell('leased', item.id, item.data.toString().replaceAll(' ', '_'));
    await new Promise(done => setTimeout(done, random() * 20));
    if (random() < 0.05) continue; // it gives up
    tell('completing', item.id);
    tell('completed', item.id, await queue.complete(db, item));
  }
}

async function clean(db, queue) {
  for await (const line of readline.createInterface({input: process.stdin})) {
    if (line === `light:${prefix}`) {
      await queue.lightClean(db);
      tell('light cleaned', prefix);
    }
  }
}

async function main() {
  const db = new Redis(Number(port));
  await {add, work, clean}[role](db, new WorkQueue(new KeyPrefix(prefix)), ...args);
  db.disconnect();
}

main();
