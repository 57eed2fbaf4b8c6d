<?php

/**
 * The client of the tests in PHP. It runs qless-php if QLESS_PHP names its vendor/autoload.php, and
 * otherwise a client of its own, based on Predis, which sends the same: EVALSHA with the command,
 * NOW with 14 digits, and an empty string for each omitted argument.
 */

declare(strict_types=1);

error_reporting(E_ALL & ~E_DEPRECATED); // Predis 1.1 is older than PHP 8.2
ini_set('display_errors', 'stderr');
ini_set('precision', '14'); // as it is by default: qless-php sends its floats as text

/** A client runs commands, and has the name of a worker. */
interface Connection
{
    public function call(string $command, ...$arguments);

    /** A separate connection to the server, for commands without a method of the client. */
    public function redis(): \Predis\Client;
}

/** The client of qless-php. */
final class RealConnection implements Connection
{
    private \Qless\Client $client;

    public function __construct(private string $url, string $script)
    {
        $file = (new ReflectionClass(\Qless\Client::class))->getFileName();
        $theirs = dirname($file) . '/qless-core/qless.lua';
        if (file_get_contents($theirs) !== file_get_contents($script)) {
            throw new RuntimeException("$theirs is not lua/qless.lua: copy it there");
        }
        $this->client = new \Qless\Client($url, ['read_write_timeout' => -1]);
    }

    public function call(string $command, ...$arguments)
    {
        return $this->client->call($command, ...$arguments);
    }

    public function redis(): \Predis\Client
    {
        return new \Predis\Client($this->url, ['parameters' => ['read_write_timeout' => -1]]);
    }
}

/** A client that sends the same commands. */
final class OwnConnection implements Connection
{
    private \Predis\Client $redis;
    private string $sha;

    public function __construct(private string $url, string $script)
    {
        $this->redis = $this->redis();
        $this->sha = $this->redis->script('load', file_get_contents($script));
    }

    public function call(string $command, ...$arguments)
    {
        $now = (string) microtime(true);
        $given = array_map(fn($argument) => (string) $argument, $arguments); // null is ''
        return $this->redis->evalsha($this->sha, 0, $command, $now, ...$given);
    }

    public function redis(): \Predis\Client
    {
        return new \Predis\Client($this->url, ['parameters' => ['read_write_timeout' => -1]]);
    }
}

/** Connects to a server with the available client. */
function connect(string $url): Connection
{
    $script = dirname(__DIR__, 3) . '/lua/qless.lua';
    $url = preg_replace('/^redis:/', 'tcp:', $url);
    $real = getenv('QLESS_PHP');
    if ($real) {
        require_once $real;
        return new RealConnection($url, $script);
    }
    require_once 'Predis/autoload.php'; // of the package php-predis
    return new OwnConnection($url, $script);
}

/** JSON in qless-php's form. */
function encode($value): string
{
    return json_encode($value, JSON_UNESCAPED_SLASHES);
}
