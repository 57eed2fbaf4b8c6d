"""One side of the tests: runs the requests on its standard input with qless-py.

A request is {"op": NAME, "args": {...}} on one line, and so is its answer: {"reply": ...} or
{"error": {"class": NAME, "text": ...}}. The requests are listed in ../README.md.
"""

import json
import queue
import sys
import threading
import time

import qless
from qless.listener import Listener

PATIENCE = 20  # seconds until what has to happen did not


class Driver:
    def __init__(self, url):
        self.url = url
        self.client = None
        self.kept = []
        self.held = {}

    # The scenario

    def begin(self, worker):
        """Begins a scenario, with the name of this side's worker."""
        # By default, redis-py 8 ends a subscription that is silent for 5 s. It also ends the
        # subscriptions of a client whenever that is collected as garbage.
        self.kept.append(self.client)
        self.client = qless.Client(self.url, hostname=worker, socket_timeout=None)
        self.held = {}
        self.heard = queue.Queue()

    def listen(self):
        """Records events from now on: of tracked jobs, and of this side's worker."""
        events = self.client.events
        for kind in list(events.events):
            events.on(kind, lambda jid, kind=kind: self.heard.put({"event": kind, "jid": jid}))
        own = Listener(self.client.redis, ["ql:w:" + self.client.worker_name])

        def note_own():
            for message in own.listen():
                self.heard.put(json.loads(message["data"]))

        channels = ["ql:" + kind for kind in events.events] + ["ql:w:" + self.client.worker_name]
        before = self.subscribers(channels)
        for target in (events.listen, note_own):
            threading.Thread(target=target, daemon=True).start()
        deadline = time.time() + PATIENCE
        while any(now <= then for now, then in zip(self.subscribers(channels), before)):
            if time.time() > deadline:
                raise TimeoutError("the subscriptions do not begin")

    def subscribers(self, channels):
        return [count for _, count in self.client.redis.pubsub_numsub(*channels)]

    def hear(self, event, jid):
        """Waits for an event, and drops earlier ones."""
        deadline = time.time() + PATIENCE
        missed = []
        while True:
            try:
                told = self.heard.get(timeout=max(0, deadline - time.time()))
            except queue.Empty:
                raise TimeoutError("no %s of %s, only %s" % (event, jid, missed))
            if told.get("event") == event and told.get("jid") == jid:
                return told
            missed.append(told)

    # Jobs

    def job_of(self, jid):
        """The job as this side popped it, or otherwise as it is now."""
        job = self.held.get(jid) or self.client.jobs[jid]
        if job is None:
            raise LookupError("Job %s does not exist" % jid)
        return job

    def put(self, queue, klass="K", data=None, **options):
        return self.client.queues[queue].put(klass, data or {}, **options)

    def pop(self, queue, count=1):
        jobs = self.client.queues[queue].pop(count)
        self.held.update((job.jid, job) for job in jobs)
        return [told(job) for job in jobs]

    def peek(self, queue, count=1):
        return [told(job) for job in self.client.queues[queue].peek(count)]

    def job(self, jid):
        job = self.client.jobs[jid]
        return job and told(job)

    def complete(self, jid, data=None, next=None, delay=None, depends=None):
        return self.changed(jid, data).complete(next, delay, depends)

    def fail(self, jid, group, message, data=None):
        return self.changed(jid, data).fail(group, message)

    def heartbeat(self, jid, data=None):
        return self.changed(jid, data).heartbeat() > time.time()

    def changed(self, jid, data):
        job = self.job_of(jid)
        if data is not None:
            job.data = data
        return job

    def retry(self, jid, delay=0, group=None, message=None):
        return self.job_of(jid).retry(delay, group, message)

    def move(self, jid, queue):
        return self.job_of(jid).move(queue)

    def timeout(self, jid):
        self.job_of(jid).timeout()

    def cancel(self, jid):
        self.job_of(jid).cancel()

    def prioritize(self, jid, priority):
        self.job_of(jid).priority = priority

    def depend(self, jid, on):
        self.job_of(jid).depend(*on)

    def undepend(self, jid, on):
        self.job_of(jid).undepend(*on)

    def tag(self, jid, tags):
        return json.loads(self.job_of(jid).tag(*tags))

    def untag(self, jid, tags):
        return json.loads(self.job_of(jid).untag(*tags)) or []

    def track(self, jid):
        self.job_of(jid).track()

    def untrack(self, jid):
        self.job_of(jid).untrack()

    # Lists

    def tagged(self, tag):
        found = self.client.jobs.tagged(tag)
        return {"total": found["total"], "jobs": found["jobs"] or []}

    def tags(self):
        return self.client.tags() or []

    def tracked(self):
        found = self.client.jobs.tracked()
        return {"jobs": [job.jid for job in found["jobs"]], "expired": found["expired"] or []}

    def failed(self):
        return self.client.jobs.failed()

    def failed_in(self, group):
        found = self.client.jobs.failed(group)
        return {"total": found["total"], "jobs": [job.jid for job in found["jobs"]]}

    def unfail(self, group, queue, count=25):
        return self.client.unfail(group, queue, count)

    def completed(self):
        return self.client.jobs.complete()

    def jobs(self, queue, state):
        return getattr(self.client.queues[queue].jobs, state)()

    def counts(self, queue):
        return self.client.queues[queue].counts

    def queues(self):
        return sorted(counts["name"] for counts in self.client.queues.counts)

    def stats(self, queue):
        stats = self.client.queues[queue].stats()
        for times in ("wait", "run"):
            stats[times] = stats[times]["count"]
        return stats

    def workers(self):
        counts = sorted(self.client.workers.counts or [], key=lambda worker: worker["name"])
        return counts

    def worker(self, name):
        return self.client.workers[name]

    # Recurring jobs

    def recur(self, queue, interval, klass="K", data=None, **options):
        return self.client.queues[queue].recur(klass, data or {}, interval, **options)

    def recurring(self, jid):
        job = self.client.jobs[jid]
        return job and {
            "jid": job.jid, "klass": job.klass_name, "queue": job.queue_name, "data": job.data,
            "priority": job.priority, "retries": job.retries, "interval": job.interval,
            "count": job.count, "tags": job.tags,
        }

    def recur_change(self, jid, **changes):
        job = self.job_of(jid)
        for name, value in changes.items():
            if name == "queue":
                job.move(value)
            elif name == "tags":
                job.tag(*value)
            else:
                setattr(job, name, value)

    def unrecur(self, jid):
        self.job_of(jid).cancel()

    # Settings

    def pause(self, queue):
        self.client.queues[queue].pause()

    def unpause(self, queue):
        self.client.queues[queue].unpause()

    def set(self, option, value):
        self.client.config[option] = value

    def unset(self, option):
        del self.client.config[option]

    def get(self, option):
        return str(self.client.config[option])


def told(job):
    """A job in the scenarios' form."""
    return {
        "jid": job.jid, "klass": job.klass_name, "queue": job.queue_name, "state": job.state,
        "worker": job.worker_name, "data": job.data, "priority": job.priority,
        "retries": job.original_retries, "remaining": job.retries_left, "tags": job.tags,
        "tracked": job.tracked, "dependencies": sorted(job.dependencies),
        "dependents": sorted(job.dependents), "failure": job.failure.get("group", ""),
        "history": [entry["what"] for entry in job.history],
    }


def main():
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"reply": getattr(driver, request["op"])(**request["args"])}
        except Exception as error:  # whatever it is, the other side has to know
            answer = {"error": {"class": type(error).__name__, "text": str(error)}}
        print(json.dumps(answer), flush=True)


main()
