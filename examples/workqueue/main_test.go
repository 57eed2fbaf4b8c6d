package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
)

func TestRun(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, `Redis: in memory (set REDIS_URL to use a server)
worked: cat.jpg, 80 pixels
worked: dog.jpg, 80 pixels
moved: 2; waiting in qless: 2
`, out.String())
}

func TestDataThatIsNotJSONIsMovedAsBytes(t *testing.T) {
	require.Equal(t, map[string][]byte{"bytes": []byte("\xff")}, dataOf(&workqueue.Item{Data: []byte("\xff")}))
}
