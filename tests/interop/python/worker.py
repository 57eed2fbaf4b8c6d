"""A worker of qless-py on the queue q: worker.py (SerialWorker|ForkingWorker) URL. It runs until
it is ended."""

import sys

import qless
from qless.workers.forking import ForkingWorker
from qless.workers.serial import SerialWorker

kind, url = sys.argv[1:]
client = qless.Client(url, hostname=kind)
if kind == "ForkingWorker":
    ForkingWorker(["q"], client, workers=2, interval=0.01).run()
else:
    SerialWorker(["q"], client, interval=0.01).run()
