package inspect_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestEventKindsAreAllOfThePackage(t *testing.T) {
	text, err := os.ReadFile("../events.go")
	require.NoError(t, err)
	var kinds []qless.EventKind
	for _, match := range regexp.MustCompile(`Event\w+ +EventKind = "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		if kind := qless.EventKind(match[1]); kind != qless.EventGap {
			kinds = append(kinds, kind)
		}
	}
	require.ElementsMatch(t, kinds, inspect.EventKinds())
}
