package events_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/events"
)

func TestKindsAreAllOfThePackage(t *testing.T) {
	text, err := os.ReadFile("events.go")
	require.NoError(t, err)
	var kinds []events.Kind
	for _, match := range regexp.MustCompile(`\t\w+ +Kind = "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		if kind := events.Kind(match[1]); kind != events.Gap {
			kinds = append(kinds, kind)
		}
	}
	require.ElementsMatch(t, kinds, events.Kinds())
}
