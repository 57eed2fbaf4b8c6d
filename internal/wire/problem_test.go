package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/wire"
)

func TestProblemsOfReplies(t *testing.T) {
	for reply, want := range map[string]wire.Problem{
		"!not_found 1 14 j does not exist":         {Code: "not_found", JID: "j", Text: "does not exist"},
		"!invalid 0 3  Arg":                        {Code: "invalid", Text: "Arg"},
		"!lock_lost 3 3 a b is":                    {Code: "lock_lost", JID: "a b", Text: "is"},
		"!server 0 3  OOM and more":                {Code: "server", Text: "OOM"},
		"!OOM command not allowed":                 {Code: "server", Text: "OOM command not allowed"},
		"!not_found 9 14 j does":                   {Code: "server", Text: "not_found 9 14 j does"},
		"!not_found 2 14 j does":                   {Code: "server", Text: "not_found 2 14 j does"},
		"!not_found -1 14 j does":                  {Code: "server", Text: "not_found -1 14 j does"},
		"!not_found 1 99999999999999999999 j does": {Code: "server", Text: "not_found 1 99999999999999999999 j does"},
		"!": {Code: "server"},
	} {
		got, refused := wire.RefusedProblem(reply)
		require.True(t, refused, reply)
		require.Equal(t, want, got, reply)
	}
	for _, reply := range []string{"", "complete", "5+"} {
		_, refused := wire.RefusedProblem(reply)
		require.False(t, refused, reply)
	}
}

func TestProblemsThatAreRaised(t *testing.T) {
	for _, answer := range []string{"", "OOM command not allowed", "ERR f(): 1", "ERR Put(): the data"} {
		_, raised := wire.RaisedProblem(answer)
		require.False(t, raised, answer)
	}
}
