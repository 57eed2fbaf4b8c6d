<?php

/**
 * A worker on the queue q: worker.php NAME URL. It runs until it is killed. Like the workers of
 * qless-php, it pops one job at a time, asks again after a while if there was none, and leaves
 * completing the job to the handler.
 */

declare(strict_types=1);

require __DIR__ . '/qless.php';

[, $name, $url] = $argv;
$qless = connect($url);
$redis = $qless->redis();

/** Counts a run, by job and by worker, and completes the job. */
function perform(Connection $qless, \Predis\Client $redis, array $job): void
{
    $redis->hincrby('runs', $job['jid'], 1);
    $redis->publish('ran', $job['worker']);
    $qless->call('complete', $job['jid'], $job['worker'], $job['queue'], $job['data']);
}

while (true) {
    $jobs = json_decode($qless->call('pop', 'q', $name, 1), true);
    foreach ($jobs as $job) {
        perform($qless, $redis, $job);
    }
    if (!$jobs) {
        usleep(10000);
    }
}
