package script

// repeatable lists the commands that may be sent again when a connection breaks before their
// reply: run twice, they do what they do once. Any other command is sent once, and the caller
// learns that its outcome is unknown: a pop that runs twice would strand the jobs of the first
// until their locks end.
var repeatable = map[string]bool{
	"config.get": true, "config.set": true, "config.unset": true, "failed": true, "get": true,
	"heartbeat": true, "jobs": true, "length": true, "multiget": true, "pause": true, "peek": true,
	"priority": true, "queue.forget": true, "queues": true, "queues.ready": true, "recur.get": true,
	"recur.tag": true, "recur.untag": true, "stats": true, "tag": true, "track": true,
	"unpause": true, "unrecur": true, "worker.deregister": true, "workers": true,
}
