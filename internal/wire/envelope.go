package wire

import (
	"encoding/json"
	"strings"
)

// An Envelope is encoded data.
type Envelope struct {
	Codec string `json:"x:codec"` // the codec's name, a colon, and the key
	Bytes []byte `json:"b"`
}

// OpenEnvelope returns the envelope in data, or nil if it has none. Other clients may have written
// its members in any order and with white space.
func OpenEnvelope(data string) *Envelope {
	if !strings.Contains(data, `"x:codec"`) || !strings.HasPrefix(strings.TrimSpace(data), "{") {
		return nil
	}
	var e Envelope
	if json.Unmarshal([]byte(data), &e) != nil || e.Codec == "" {
		return nil
	}
	return &e
}
