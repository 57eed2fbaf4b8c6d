"""Puts and runs jobs with qless-py: program.py URL QUEUE... It ends with its standard input; a line
there ends only its puts."""

import json
import random
import sys
import threading
import time
import uuid

import qless
from qless.exceptions import QlessException

RETRIES = 200

url, queues = sys.argv[1], sys.argv[2:]
ended, put_ended, printing = threading.Event(), threading.Event(), threading.Lock()


def tell(**record):
    with printing:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


def put():
    client = qless.Client(url)
    while not put_ended.wait(random.uniform(0, 0.03)):
        delay = 1 if random.randrange(10) == 0 else 0
        jid = client.queues[random.choice(queues)].put(
            "jobs", {"body": "d29yaw=="}, delay=delay, retries=RETRIES, jid=uuid.uuid4().hex)
        tell(put=jid)


def work(number):
    client = qless.Client(url)
    client.worker_name += "-%d" % number
    while not ended.is_set():
        jobs = [job for name in queues for job in client.queues[name].pop(1)]
        if not jobs:
            ended.wait(0.02)
        for job in jobs:
            time.sleep(random.uniform(0, 0.005))
            tell(ran=job.jid)
            try:
                job.complete()
            except QlessException:
                pass  # another worker has it


threads = [threading.Thread(target=put, daemon=True)]
threads += [threading.Thread(target=work, args=(i,), daemon=True) for i in range(2)]
for thread in threads:
    thread.start()
tell(ready=True)
for _ in sys.stdin:
    put_ended.set()
put_ended.set()
ended.set()
for thread in threads:
    thread.join()
