package main

import (
	"encoding/json"
	"strings"
)

// A document is the value of a payload.
type document struct {
	Text string `json:"text"`
	List []struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
		Done bool   `json:"done"`
	} `json:"list"`
}

// dataOf returns a payload as a program has it: as JSON if it is raw, or else as a document.
func dataOf(payload string, raw bool) any {
	data := json.RawMessage(payload)
	var value document
	if raw || json.Unmarshal(data, &value) != nil {
		return data
	}
	return value
}

// encode returns data as JSON.
func encode(data any) ([]byte, error) {
	if raw, ok := data.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(data)
}

// payloadOf returns JSON of at least the given number of bytes: records like those of real
// programs, padded with a text.
func payloadOf(bytes int) string {
	const record = `{"id":1234,"name":"some text","done":false}`
	records := max(1, (bytes-40)/(len(record)+1))
	list := strings.TrimSuffix(strings.Repeat(record+",", records), ",")
	empty := len(`{"text":"","list":[]}`) + len(list)
	return `{"text":"` + strings.Repeat("x", max(0, bytes-empty)) + `","list":[` + list + `]}`
}
