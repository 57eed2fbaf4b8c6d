package events

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONOfEvents(t *testing.T) {
	for text, event := range map[string]Event{
		`{"event":"gap"}`: {Kind: Gap},
		`{"event":"failed","tracked":true,"jid":"j","queue":"q","to":"r","worker":"w","group":"g",` +
			`"message":"m","option":"o","value":"v"}`: {
			Kind: Failed, Tracked: true, JID: "j", Queue: "q", To: "r", Worker: "w", Group: "g",
			Message: "m", Option: "o", Value: "v",
		},
	} {
		written, err := json.Marshal(event)
		require.NoError(t, err)
		require.Equal(t, text, string(written))
		var read Event
		require.NoError(t, json.Unmarshal(written, &read))
		require.Equal(t, event, read, "what is read again")
	}
}

func FuzzDecodeEvent(f *testing.F) {
	f.Add("log", `{"event":"failed","jid":5,"count":"2"}`)
	f.Add("x:log", `[]`)
	f.Add("put", "jid")
	l := listener{prefix: "ql:", logger: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, channel, payload string) {
		event := l.decodeEvent("ql:"+channel, payload)
		require.Equal(t, event, l.decodeEvent("ql:"+channel, payload))
	})
}
