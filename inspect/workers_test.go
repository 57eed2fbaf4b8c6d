package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichQueuesAWorkerTakesFrom(t *testing.T) {
	for queue, info := range map[string]WorkerInfo{
		"mail":        {Queues: []string{"mail"}},
		"mail-slow":   {Queues: []string{"other", "mail-*"}},
		"all":         {Queues: []string{"*", "!mail-*"}},
		"!mail-slow":  {Queues: []string{"mail-*", "!mail-slow"}},
		"!other":      {Queues: []string{"mail"}},
		"!mail":       {Queues: []string{"mail"}, Paused: true},
		"!mail-quick": {Queues: []string{"mail-*"}, Stopping: true},
		"!none":       {},
	} {
		name, takes := queue, true
		if queue[0] == '!' {
			name, takes = queue[1:], false
		}
		require.Equal(t, takes, info.TakesFrom(name), "%s of %v", name, info)
	}
}
