"""The jobs of the tests with workers: each run is counted, by job and by worker."""


class Count:
    @staticmethod
    def process(job):
        client = job.client
        client.redis.hincrby("runs", job.jid, 1)
        client.redis.publish("ran", client.worker_name)
        job.complete()
