<?php

/**
 * One side of the tests: runs the requests on its standard input like qless-php.
 *
 * A request is {"op": NAME, "args": {...}} on one line, and so is its answer: {"reply": ...} or
 * {"error": {"class": NAME, "text": ...}}. The requests are listed in ../README.md.
 */

declare(strict_types=1);

require __DIR__ . '/qless.php';

const PATIENCE = 20; // seconds until what has to happen did not

final class Driver
{
    private Connection $qless;
    private string $worker = '';
    private array $held = []; // jobs as this side popped them
    private ?\Predis\Client $listener = null;

    public function __construct(private string $url)
    {
        $this->qless = connect($url);
    }

    // The scenario

    public function begin(array $a)
    {
        $this->worker = $a['worker'];
        $this->held = [];
        $this->listener = null;
    }

    /** Records events from now on: of tracked jobs, and of this side's worker. */
    public function listen(array $a)
    {
        $channels = array_map(
            fn($kind) => 'ql:' . $kind,
            ['canceled', 'completed', 'failed', 'popped', 'stalled', 'put', 'track', 'untrack', 'w:' . $this->worker]
        );
        $this->listener = $this->qless->redis();
        $connection = $this->listener->getConnection();
        $connection->writeRequest($this->listener->createCommand('SUBSCRIBE', $channels));
        foreach ($channels as $_) {
            $connection->read();
        }
    }

    /** Waits for an event, and drops earlier ones. */
    public function hear(array $a)
    {
        $connection = $this->listener->getConnection();
        $deadline = microtime(true) + PATIENCE;
        while (microtime(true) < $deadline) {
            stream_set_timeout($connection->getResource(), PATIENCE);
            [, $channel, $text] = $connection->read();
            $told = str_starts_with($channel, 'ql:w:')
                ? json_decode($text, true)
                : ['event' => substr($channel, 3), 'jid' => $text];
            if (($told['event'] ?? '') === $a['event'] && ($told['jid'] ?? '') === $a['jid']) {
                return $told;
            }
        }
        throw new RuntimeException("no {$a['event']} of {$a['jid']}");
    }

    // Jobs

    public function put(array $a)
    {
        return $this->qless->call(
            'put', '', $a['queue'], $a['jid'] ?? bin2hex(random_bytes(16)), $a['klass'] ?? 'K', $this->dataOf($a),
            $a['delay'] ?? 0, 'priority', $a['priority'] ?? 0, 'tags', encode($a['tags'] ?? []),
            'retries', $a['retries'] ?? 5, 'depends', encode($a['depends'] ?? []), 'backoff', encode([])
        );
    }

    public function pop(array $a)
    {
        $jobs = json_decode($this->qless->call('pop', $a['queue'], $this->worker, $a['count'] ?? 1), true);
        foreach ($jobs as $job) {
            $this->held[$job['jid']] = $job;
        }
        return array_map($this->told(...), $jobs);
    }

    public function peek(array $a)
    {
        $jobs = json_decode($this->qless->call('peek', $a['queue'], $a['count'] ?? 1), true);
        return array_map($this->told(...), $jobs);
    }

    public function job(array $a)
    {
        $job = $this->qless->call('get', $a['jid']);
        return $job ? $this->told(json_decode($job, true)) : null;
    }

    public function complete(array $a)
    {
        $job = $this->jobOf($a['jid']);
        $arguments = [$job['jid'], $job['worker'], $job['queue'], $this->changed($job, $a)];
        if (isset($a['next'])) {
            $next = ['next', $a['next'], 'delay', $a['delay'] ?? 0, 'depends', encode($a['depends'] ?? [])];
            $arguments = array_merge($arguments, $next);
        }
        return $this->qless->call('complete', ...$arguments);
    }

    public function fail(array $a)
    {
        $job = $this->jobOf($a['jid']);
        return $this->qless->call(
            'fail', $job['jid'], $job['worker'], $a['group'], $a['message'], $this->changed($job, $a)
        );
    }

    public function heartbeat(array $a)
    {
        $job = $this->jobOf($a['jid']);
        return $this->qless->call('heartbeat', $job['jid'], $job['worker'], $this->changed($job, $a)) > time();
    }

    public function retry(array $a)
    {
        $job = $this->jobOf($a['jid']);
        $arguments = [$job['jid'], $job['queue'], $job['worker'], $a['delay'] ?? 0];
        if (isset($a['group'])) {
            array_push($arguments, $a['group'], $a['message']);
        }
        return $this->qless->call('retry', ...$arguments);
    }

    public function move(array $a)
    {
        $job = $this->jobOf($a['jid']);
        return $this->qless->call(
            'requeue', $job['worker'], $a['queue'], $job['jid'], $job['klass'], $job['data'], 0,
            'priority', $job['priority'], 'tags', encode(array_values($job['tags'])), 'retries', $job['retries'],
            'depends', encode(array_values($job['dependencies']))
        );
    }

    public function timeout(array $a)
    {
        $this->qless->call('timeout', $a['jid']);
    }

    public function cancel(array $a)
    {
        $this->qless->call('cancel', $a['jid']);
    }

    public function prioritize(array $a)
    {
        $this->qless->call('priority', $a['jid'], $a['priority']);
    }

    public function depend(array $a)
    {
        $this->qless->call('depends', $a['jid'], 'on', ...$a['on']);
    }

    public function undepend(array $a)
    {
        $this->qless->call('depends', $a['jid'], 'off', ...$a['on']);
    }

    public function tag(array $a)
    {
        return json_decode($this->qless->call('tag', 'add', $a['jid'], ...$a['tags']), true);
    }

    public function untag(array $a)
    {
        return json_decode($this->qless->call('tag', 'remove', $a['jid'], ...$a['tags']), true);
    }

    public function track(array $a)
    {
        $this->qless->call('track', 'track', $a['jid']);
    }

    public function untrack(array $a)
    {
        $this->qless->call('track', 'untrack', $a['jid']);
    }

    // Lists

    public function tagged(array $a)
    {
        return json_decode($this->qless->call('tag', 'get', $a['tag'], 0, 25), true);
    }

    public function tags(array $a)
    {
        return json_decode($this->qless->call('tag', 'top', 0, 25), true);
    }

    public function tracked(array $a)
    {
        $found = json_decode($this->qless->call('track'), true);
        return ['jobs' => array_column($found['jobs'], 'jid'), 'expired' => $found['expired']];
    }

    public function failed(array $a)
    {
        return (object) json_decode($this->qless->call('failed'), true);
    }

    public function failed_in(array $a)
    {
        return json_decode($this->qless->call('failed', $a['group'], 0, 25), true);
    }

    public function unfail(array $a)
    {
        return $this->qless->call('unfail', $a['queue'], $a['group'], $a['count'] ?? 25);
    }

    public function completed(array $a)
    {
        return $this->qless->call('jobs', 'complete', '', 0, 25);
    }

    public function jobs(array $a)
    {
        return $this->qless->call('jobs', $a['state'], $a['queue'], 0, 25);
    }

    public function counts(array $a)
    {
        return json_decode($this->qless->call('queues', $a['queue']), true);
    }

    public function queues(array $a)
    {
        $names = array_column(json_decode($this->qless->call('queues'), true), 'name');
        sort($names);
        return $names;
    }

    public function stats(array $a)
    {
        $stats = json_decode($this->qless->call('stats', $a['queue'], time()), true);
        foreach (['wait', 'run'] as $times) {
            $stats[$times] = $stats[$times]['count'];
        }
        return $stats;
    }

    public function workers(array $a)
    {
        $workers = json_decode($this->qless->call('workers', ''), true);
        usort($workers, fn($one, $other) => strcmp($one['name'], $other['name']));
        return $workers;
    }

    public function worker(array $a)
    {
        return json_decode($this->qless->call('workers', $a['name']), true);
    }

    // Operations of PHP clients only

    public function pop_by_jid(array $a)
    {
        $jobs = json_decode($this->qless->call('popByJid', $a['queue'], $a['jid'], $this->worker), true);
        foreach (array_filter($jobs) as $job) {
            $this->held[$job['jid']] = $job;
        }
        return array_map($this->told(...), array_filter($jobs));
    }

    public function put_backoff(array $a)
    {
        return $this->qless->call(
            'put', '', $a['queue'], $a['jid'], 'K', '{}', 0, 'priority', 0, 'tags', encode([]), 'retries', 5,
            'depends', encode([]), 'backoff', encode($a['backoff'])
        );
    }

    // Recurring jobs

    public function recur(array $a)
    {
        return $this->qless->call(
            'recur', $a['queue'], $a['jid'], $a['klass'] ?? 'K', $this->dataOf($a), 'interval', $a['interval'],
            $a['offset'] ?? 0, 'priority', $a['priority'] ?? 0, 'tags', encode($a['tags'] ?? []),
            'retries', $a['retries'] ?? 5, 'backlog', 0
        );
    }

    public function recurring(array $a)
    {
        $text = $this->qless->call('recur.get', $a['jid']);
        if (!$text) {
            return null;
        }
        $job = json_decode($text, true);
        $job['data'] = json_decode($job['data']);
        return $job;
    }

    public function recur_change(array $a)
    {
        $jid = $a['jid'];
        unset($a['jid']);
        foreach ($a as $name => $value) {
            if ($name === 'tags') {
                $this->qless->call('recur.tag', $jid, ...$value);
                continue;
            }
            $this->qless->call('recur.update', $jid, $name, $name === 'data' ? encode($value) : $value);
        }
    }

    public function unrecur(array $a)
    {
        $this->qless->call('unrecur', $a['jid']);
    }

    // Settings

    public function pause(array $a)
    {
        $this->qless->call('pause', $a['queue']);
    }

    public function unpause(array $a)
    {
        $this->qless->call('unpause', $a['queue']);
    }

    public function set(array $a)
    {
        $this->qless->call('config.set', $a['option'], $a['value']);
    }

    public function unset(array $a)
    {
        $this->qless->call('config.unset', $a['option']);
    }

    public function get(array $a)
    {
        return (string) $this->qless->call('config.get', $a['option']);
    }

    // Helpers

    /** The job as this side popped it, or otherwise as it is now. */
    private function jobOf(string $jid): array
    {
        if (isset($this->held[$jid])) {
            return $this->held[$jid];
        }
        $job = $this->qless->call('get', $jid);
        if (!$job) {
            throw new RuntimeException("Job $jid does not exist");
        }
        return json_decode($job, true);
    }

    /** The data of a job in the form to save. */
    private function changed(array $job, array $a): string
    {
        return isset($a['data']) ? encode($a['data']) : $job['data'];
    }

    private function dataOf(array $a): string
    {
        return isset($a['data']) ? encode($a['data']) : '{}';
    }

    /** A job in the scenarios' form. */
    private function told(array $job): array
    {
        return [
            'jid' => $job['jid'], 'klass' => $job['klass'], 'queue' => $job['queue'], 'state' => $job['state'],
            'worker' => $job['worker'], 'data' => json_decode($job['data']), 'priority' => $job['priority'],
            'retries' => $job['retries'], 'remaining' => $job['remaining'], 'tags' => $job['tags'],
            'tracked' => $job['tracked'], 'dependencies' => $this->sorted($job['dependencies']),
            'dependents' => $this->sorted($job['dependents']), 'failure' => $job['failure']['group'] ?? '',
            'history' => array_column($job['history'], 'what'),
        ];
    }

    private function sorted(array $names): array
    {
        sort($names);
        return $names;
    }
}

$driver = new Driver($argv[1]);
while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true);
    try {
        $answer = ['reply' => $driver->{$request['op']}($request['args'])];
    } catch (Throwable $error) { // whatever it is, the other side has to know
        $answer = ['error' => ['class' => get_class($error), 'text' => $error->getMessage()]];
    }
    echo json_encode($answer, JSON_UNESCAPED_SLASHES), "\n";
}
