package inspect_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestEachListOfAQueueHasACount(t *testing.T) {
	counts := qless.QueueCounts{}
	fields := reflect.ValueOf(&counts).Elem()
	byName := map[string]int{}
	for i := range fields.NumField() {
		if fields.Field(i).CanInt() {
			fields.Field(i).SetInt(int64(i))
			byName[fields.Type().Field(i).Tag.Get("json")] = i
		}
	}
	lists := append(inspect.JobLists(), inspect.Recurring)
	require.Len(t, lists, len(byName))
	for _, list := range lists {
		require.Equal(t, byName[string(list)], list.Count(&counts), list)
	}
	require.Zero(t, inspect.List("other").Count(&counts))
}

func TestPagesNameTheListsOfAQueue(t *testing.T) {
	var names []string
	for _, list := range inspect.JobLists() {
		names = append(names, string(list))
	}
	for _, page := range []string{"cli.md", "metrics.md"} {
		text, err := os.ReadFile("../docs/" + page)
		require.NoError(t, err)
		require.Contains(t, string(text), strings.Join(names, ", "), page)
	}
}
