package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/qlesstest"
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

// A job that only has the same id is not mistaken for an item's job: the item would be lost.
func TestAnItemWhoseIDAnotherJobHasIsNotLost(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	ctx, rdb, queue := t.Context(), server.Redis(), workqueue.New(prefix)
	client, err := qless.New(rdb, &qless.ClientConfig{Namespace: namespace})
	require.NoError(t, err)
	jobs := client.Queue("example")
	_, err = jobs.Put(ctx, klass, 1, qless.JID("cat"))
	require.NoError(t, err)
	_, err = queue.AddItem(ctx, rdb, workqueue.Item{ID: "cat", Data: []byte("2")})
	require.NoError(t, err)

	require.ErrorContains(t, move(ctx, rdb, queue, io.Discard), "another job has the id cat")
	left, err := queue.QueueLen(ctx, rdb)
	require.NoError(t, err)
	require.Equal(t, 1, int(left))

	popped, err := jobs.Pop(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, popped[0].Complete(ctx))
	require.NoError(t, move(ctx, rdb, queue, io.Discard))
	popped, err = jobs.Pop(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, "2", string(popped[0].Data))
}
