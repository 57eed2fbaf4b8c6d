"""A peer of the tests: the redis-work-queue of PyPI as an adder, a worker or a cleaner.

    peer.py PORT PREFIX add NAME COUNT
    peer.py PORT PREFIX work SEED LEASE
    peer.py PORT PREFIX clean

It tells what it does in lines on its standard output.
"""

import random
import sys
import time

from redis import Redis
from redis_work_queue import Item, KeyPrefix, WorkQueue


def tell(*words):
    print(*words, flush=True)


def add(db, queue, name, count):
    for i in range(int(count)):
        item_id = f"{name}-{i}"
        queue.add_item(db, Item(f"data of {item_id}", id=item_id))
        tell("added", item_id)


def work(db, queue, seed, lease):
    draw = random.Random(int(seed))
    while True:
        item = queue.lease(db, int(lease), timeout=1)
        if item is None:
            continue
        if not item.data():  # what this version makes of an id without data
            tell("ghost", item.id())
            queue.complete(db, item)
            continue
        tell("leased", item.id(), item.data().decode().replace(" ", "_"))
        time.sleep(draw.random() / 50)
        if draw.random() < 0.05:
            continue  # it gives up
        tell("completing", item.id())
        tell("completed", item.id(), str(queue.complete(db, item)).lower())


def clean(db, queue, prefix):
    for line in sys.stdin:
        if line.strip() == "light:" + prefix:
            queue.light_clean(db)
            tell("light cleaned", prefix)


def main(port, prefix, role, *args):
    db = Redis(port=int(port))
    queue = WorkQueue(KeyPrefix(prefix))
    if role == "clean":
        args = (prefix,)
    {"add": add, "work": work, "clean": clean}[role](db, queue, *args)


main(*sys.argv[1:])
