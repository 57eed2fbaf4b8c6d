package units_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/units"
)

type inner struct {
	For  time.Duration `json:"for,omitempty"`
	Name string        `json:"name"`
}

type timed struct {
	Took   time.Duration  `json:"took"`
	Until  *time.Duration `json:"until,omitempty"`
	When   time.Time      `json:"when,omitzero"`
	Inner  *inner         `json:"inner,omitempty"`
	Second inner          `json:"second"`
	Name   string         `json:"name"`
	Plain  *struct{ A int }

	unseen int
}

func TestDurationsInStructsAreTexts(t *testing.T) {
	ever := time.Duration(-1)
	for text, value := range map[string]timed{
		`{"when":"2026-01-02T00:00:00Z","name":"<&>","Plain":{"A":1},"took":"1m30s","until":"forever",` +
			`"inner":{"name":"i","for":"250ms"},"second":{"name":"s"}}`: {
			Took: 90 * time.Second, Until: &ever, When: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
			Inner: &inner{250 * time.Millisecond, "i"}, Second: inner{Name: "s"}, Name: "<&>",
			Plain: &struct{ A int }{1},
		},
		`{"name":"","Plain":null,"took":"0s","second":{"name":""}}`: {},
	} {
		raw, err := units.Marshal(value)
		require.NoError(t, err)
		require.Equal(t, text+"\n", string(raw))
		var read timed
		require.NoError(t, units.Unmarshal(raw, &read))
		require.Equal(t, value, read)
	}
	kept := timed{Name: "n", Took: time.Second, unseen: 7}
	require.Error(t, units.Unmarshal([]byte(`{"took": "long"}`), &kept))
	require.NoError(t, units.Unmarshal([]byte(`{"took": "2s"}`), &kept))
	require.Equal(t, timed{Name: "n", Took: 2 * time.Second, unseen: 7}, kept)
}
