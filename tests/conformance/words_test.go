package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// stage creates the jobs named by the commands below, each in the state given by its name.
var stage = []string{
	"put 1 w q running K {} 0", "pop 1 q w 1",
	"put 1 w q theirs K {} 0", "pop 1 q w2 1",
	"put 1 w q waiting K {} 0", "put 1 w q parent K {} 0",
	`put 1 w q child K {} 0 depends ["parent"]`,
	"recur 1 q r K {} interval 60 60",
	"put 1 w q canceled K {} 0", "track 1 track canceled", "cancel 1 canceled",
}

// words holds the errors of the stock script, on which clients and their tests rely. The traces
// contain only their areas.
var words = map[string]string{
	"cancel 2 parent":                      "Cancel(): parent is a dependency of child but is not mentioned to be canceled",
	"complete 2 gone w q {}":               "Complete(): Job gone does not exist",
	"complete 2 waiting w q {}":            "Complete(): Job waiting is not currently running: waiting",
	"complete 2 theirs w q {}":             "Complete(): Job theirs has been handed out to another worker: w2",
	"complete 2 running w other {}":        "Complete(): Job running running in another queue: q",
	"complete 2 running w q {} delay 1":    `Complete(): "delay" cannot be used without a "next".`,
	"complete 2 running w q {} depends []": `Complete(): "depends" cannot be used without a "next".`,
	"complete 2 running w":                 `Complete(): Arg "queue" missing`,
	"config.set 2 heartbeat":               `config.set(): Arg "value" missing`,
	"depends 2 gone on parent":             "Depends(): Job gone not in the depends state: false",
	"depends 2 waiting on parent":          "Depends(): Job waiting not in the depends state: waiting",
	"depends 2 child over parent":          `Depends(): Argument "command" must be "on" or "off"`,
	"fail 2 gone w g m":                    "Fail(): Job gone does not exist",
	"fail 2 waiting w g m":                 "Fail(): Job waiting not currently running: waiting",
	"fail 2 theirs w g m":                  "Fail(): Job theirs running with another worker: w2",
	"failed 2 g x":                         `Failed(): Arg "start" is not a number: x`,
	"get 2":                                "Job(): no jid provided",
	"heartbeat 2 gone w":                   "Heartbeat(): Job gone does not exist",
	"heartbeat 2 waiting w":                "Heartbeat(): Job waiting not currently running: waiting",
	"heartbeat 2 theirs w":                 "Heartbeat(): Job theirs given out to another worker: w2",
	"jobs 2 complete x":                    `Jobs(): Arg "offset" not a number: x`,
	"jobs 2 complete 0 x":                  `Jobs(): Arg "count" not a number: x`,
	"jobs 2 running q x":                   `Jobs(): Arg "offset" not a number: x`,
	"jobs 2 lost q":                        `Jobs(): Unknown type "lost"`,
	"length 2":                             "Queue(): no queue name provided",
	"log 2 gone m":                         "Log(): Job gone does not exist",
	"peek 2 q":                             `Peek(): Arg "count" missing or not a number: nil`,
	"pop 2 q w x":                          `Pop(): Arg "count" missing or not a number: x`,
	"priority 2 waiting x":                 `Priority(): Arg "priority" missing or not a number: x`,
	"put 2 w q j K {} x":                   `Put(): Arg "delay" not a number: x`,
	"put 2 w q j K {} 0 retries x":         `Put(): Arg "retries" not a number: x`,
	"recur 2 q j K {} daily":               `Recur(): schedule type "daily" unknown`,
	"recur 2 q j K {} interval x 0":        `Recur(): Arg "interval" not a number: x`,
	"recur.get 2":                          "Recurring(): no jid provided",
	"recur.tag 2 gone a":                   "Tag(): Job gone does not exist",
	"recur.untag 2 gone a":                 "Untag(): Job gone does not exist",
	"recur.update 2 gone priority 1":       "Recur(): No recurring job gone",
	"recur.update 2 r color red":           `Recur(): Unrecognized option "color"`,
	"requeue 2 w q gone K {} 0":            "Requeue(): Job gone does not exist",
	"retry 2 gone q w":                     "Retry(): Job gone does not exist",
	"retry 2 waiting q w":                  "Retry(): Job waiting is not currently running: waiting",
	"retry 2 theirs q w":                   "Retry(): Job theirs has been given to another worker: w2",
	"retry 2 running q w x":                `Retry(): Arg "delay" not a number: x`,
	"stats 2 q x":                          `Stats(): Arg "date" missing or not a number: x`,
	"tag 2 add gone a":                     "Tag(): Job gone does not exist",
	"tag 2 get a x":                        `Tag(): Arg "offset" not a number: x`,
	"timeout 2 gone":                       "Timeout(): Job gone does not exist",
	"timeout 2 waiting":                    "Timeout(): Job waiting not running",
	"track 2 track gone":                   "Track(): Job does not exist",
	"track 2 untrack gone":                 "Track(): Job does not exist",
	"track 2 untrack canceled":             "Track(): Job does not exist",
	"track 2 follow waiting":               `Track(): Unknown action "follow"`,
	"unfail 2 q g x":                       `Unfail(): Arg "count" not a number: x`,
	"unknown 2":                            "Unknown command unknown",
	"queues now":                           `Arg "now" missing or not a number: now`,
}

// theirWords matches an error of a script with the text added by a server.
var theirWords = regexp.MustCompile(`^(?:ERR )?(?:Error running script [^@]*@user_script:\d+: )?` +
	`(?:user_script:\d+: )?(.*?)(?: script: .*)?$`)

func TestTheWordsOfErrors(t *testing.T) {
	t.Parallel()
	g := newTarget(t, testkit.Start(t).Addr(), "ql:", dropIn)
	for _, line := range stage {
		got, err := g.run(t.Context(), strings.Fields(line))
		require.NoError(t, err)
		require.Empty(t, got.Area, line)
	}
	for line, want := range words {
		got, err := g.run(t.Context(), strings.Fields(line))
		require.NoError(t, err)
		assert.Equal(t, want, theirWords.FindStringSubmatch(got.Message)[1], line)
	}
}
