package terms

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
)

func TestWordsNameFields(t *testing.T) {
	for text, want := range map[string]Terms{
		"":                             {},
		"klass:Send urgent":            {Klass: "Send", Text: "urgent"},
		`tag:"night run" state:failed`: {Tag: "night run", State: "failed"},
		"data.user.id=7 queue:mail":    {Path: "user.id", Value: "7", Queue: "mail"},
		`data:"a b" jid:4b`:            {Data: "a b", JID: "4b"},
		"shop:42 two words":            {Text: "shop:42 two words"},
		`data:"customer":4107`:         {Data: `"customer":4107`},
		"data.=7":                      {Text: "data.=7"},
	} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"klass:", "klass:A klass:B", "data.a=1 data.b=2"} {
		_, err := Parse(text)
		require.Error(t, err, text)
	}
}

func TestAPathLeadsToAValue(t *testing.T) {
	row := &inspect.Row{Data: `{"user":{"id":7,"name":"ann","tags":["a",{"b":true}]}}`}
	for text, isThere := range map[string]bool{
		"data.user.id=7": true, "data.user.id=70": false, "data.user.name=ann": true, "data.user.nobody=1": false,
		"data.user.tags.0=a": true, "data.user.tags.1.b=true": true, "data.user.tags.9=a": false, "data.user.id.x=7": false,
	} {
		terms, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, isThere, terms.Holds(row), text)
	}
}
