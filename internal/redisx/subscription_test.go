package redisx_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/testkit"
)

// subscribe subscribes to channels and passes on every notice.
func subscribe(
	ctx context.Context, rdb *redis.Client, broken func(error), channels ...string,
) (*redisx.Subscription[redisx.Notice], error) {
	return redisx.Subscribe(ctx, rdb, redisx.SubscriptionConfig[redisx.Notice]{
		Backoff:  redisx.WhileAway,
		Broken:   broken,
		Buffer:   256,
		Channels: channels,
		Decode:   func(n redisx.Notice) (redisx.Notice, bool) { return n, n.Payload != "nothing" },
	})
}

// next returns the next notice.
func next(t *testing.T, s *redisx.Subscription[redisx.Notice]) redisx.Notice {
	t.Helper()
	select {
	case notice, open := <-s.C():
		require.True(t, open, "the subscription has ended")
		return notice
	case <-time.After(patience):
		require.FailNow(t, "no notice")
		return redisx.Notice{}
	}
}

func TestMessagesComeInOrder(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	s, err := subscribe(t.Context(), rdb, nil, "a", "b")
	require.NoError(t, err)
	defer s.Close()
	for _, message := range [][2]string{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"a", "nothing"}, {"a", "4"}} {
		require.NoError(t, rdb.Publish(t.Context(), message[0], message[1]).Err())
	}
	require.Equal(t, redisx.Notice{Channel: "a", Payload: "1"}, next(t, s))
	require.Equal(t, redisx.Notice{Channel: "b", Payload: "2"}, next(t, s))
	require.Equal(t, redisx.Notice{Channel: "a", Payload: "4"}, next(t, s))
}

func TestAChannelMayBeNamedTwice(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	s, err := subscribe(t.Context(), rdb, nil, "a", "b", "a")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, rdb.Publish(t.Context(), "a", "1").Err())
	require.NoError(t, rdb.Publish(t.Context(), "b", "2").Err())
	require.Equal(t, redisx.Notice{Channel: "a", Payload: "1"}, next(t, s), "once")
	require.Equal(t, redisx.Notice{Channel: "b", Payload: "2"}, next(t, s))
}

func TestChannelsAreAddedAndRemoved(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	s, err := subscribe(t.Context(), rdb, nil, "a")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Add(t.Context(), "b"))
	require.Equal(t, redisx.Notice{Kind: redisx.Subscribed, Channel: "b"}, next(t, s))
	require.NoError(t, rdb.Publish(t.Context(), "b", "1").Err())
	require.Equal(t, redisx.Notice{Channel: "b", Payload: "1"}, next(t, s))
	require.NoError(t, s.Remove(t.Context(), "a"))
	require.NoError(t, s.Add(t.Context(), "c"))
	require.Equal(t, redisx.Notice{Kind: redisx.Subscribed, Channel: "c"}, next(t, s))
	require.NoError(t, rdb.Publish(t.Context(), "a", "2").Err())
	require.NoError(t, rdb.Publish(t.Context(), "b", "3").Err())
	require.Equal(t, redisx.Notice{Channel: "b", Payload: "3"}, next(t, s))
}

func TestABrokenSubscriptionIsRestoredWithAGap(t *testing.T) {
	server := testkit.Start(t)
	proxy := testkit.NewProxy(t, server.Addr())
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	defer rdb.Close()
	var broken atomic.Int32
	s, err := subscribe(t.Context(), rdb, func(error) { broken.Add(1) }, "a")
	require.NoError(t, err)
	defer s.Close()
	for cuts := range int32(3) {
		proxy.CutAll()
		require.Equal(t, redisx.Notice{Kind: redisx.Gap}, next(t, s))
		require.Equal(t, cuts+1, broken.Load())
		require.NoError(t, rdb.Publish(t.Context(), "a", "1").Err())
		require.Equal(t, redisx.Notice{Channel: "a", Payload: "1"}, next(t, s))
	}
}

func TestASubscriptionOutlivesItsServer(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	var broken atomic.Int32
	s, err := subscribe(t.Context(), rdb, func(error) { broken.Add(1) }, "a")
	require.NoError(t, err)
	defer s.Close()
	server.Restart()
	require.Equal(t, redisx.Notice{Kind: redisx.Gap}, next(t, s))
	require.Equal(t, int32(1), broken.Load(), "once, however long the server is away")
	require.NoError(t, rdb.Publish(t.Context(), "a", "1").Err())
	require.Equal(t, redisx.Notice{Channel: "a", Payload: "1"}, next(t, s))
}

// The test's TestMain looks for leftover goroutines.
func TestASubscriptionEnds(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	for name, end := range map[string]func(*redisx.Subscription[redisx.Notice], context.CancelFunc){
		"by Close":         func(s *redisx.Subscription[redisx.Notice], _ context.CancelFunc) { _ = s.Close() },
		"by Cancel":        func(s *redisx.Subscription[redisx.Notice], _ context.CancelFunc) { s.Cancel() },
		"with the context": func(_ *redisx.Subscription[redisx.Notice], cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := subscribe(ctx, rdb, nil, "a")
			require.NoError(t, err)
			for range 1000 { // more than wait for a reader
				require.NoError(t, rdb.Publish(t.Context(), "a", "1").Err())
			}
			end(s, cancel)
			timer := time.After(patience)
			for open := true; open; {
				select {
				case _, open = <-s.C():
				case <-timer:
					t.Fatal("the subscription goes on")
				}
			}
			require.NoError(t, s.Close())
			require.NoError(t, s.Close(), "twice is fine")
		})
	}
}

func TestSubscriptionsThatCanNotBegin(t *testing.T) {
	server := testkit.Start(t)
	options := testkit.Options(server.Addr())
	options.MaxRetries, options.DialerRetries = -1, 1
	rdb := redis.NewClient(options)
	defer rdb.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := subscribe(ctx, rdb, nil, "a")
	require.ErrorIs(t, err, context.Canceled)
	server.Kill()
	_, err = subscribe(t.Context(), rdb, nil, "a")
	require.True(t, redisx.NeverRan(err), "%v", err)
}

// through returns two clients, with and without connections through a proxy.
func through(t *testing.T) (*testkit.Proxy, *redis.Client, *redis.Client) {
	t.Helper()
	server := testkit.Start(t)
	proxy := testkit.NewProxy(t, server.Addr())
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	t.Cleanup(func() { _ = rdb.Close() })
	return proxy, rdb, server.Client(t)
}

func TestASilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	proxy, rdb, direct := through(t)
	var broken atomic.Int32
	s, err := subscribe(t.Context(), rdb, func(error) { broken.Add(1) }, "a", "b")
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Add(t.Context(), "c"))
	require.Equal(t, redisx.Notice{Kind: redisx.Subscribed, Channel: "c"}, next(t, s))
	require.NoError(t, s.Remove(t.Context(), "b"))
	require.NoError(t, direct.Publish(t.Context(), "a", "0").Err())
	require.Equal(t, redisx.Notice{Channel: "a", Payload: "0"}, next(t, s))

	proxy.GoSilent()
	require.Equal(t, redisx.Notice{Kind: redisx.Gap}, next(t, s), "no reset was received")
	require.Equal(t, int32(1), broken.Load())
	require.Equal(t, redisx.Notice{Kind: redisx.Subscribed, Channel: "c"}, next(t, s))
	for _, channel := range []string{"b", "a", "c"} { // b was removed
		require.NoError(t, direct.Publish(t.Context(), channel, "1").Err())
	}
	require.Equal(t, redisx.Notice{Channel: "a", Payload: "1"}, next(t, s))
	require.Equal(t, redisx.Notice{Channel: "c", Payload: "1"}, next(t, s))
}

func TestASubscriptionThatIsNotConfirmedFails(t *testing.T) {
	t.Parallel()
	proxy, rdb, _ := through(t)
	release := proxy.HoldReply("subscribe")
	defer release()
	done := make(chan error, 1)
	go func() {
		s, err := subscribe(t.Context(), rdb, nil, "a")
		if err == nil {
			_ = s.Close()
		}
		done <- err
	}()
	require.True(t, redisx.IsTimeout(testkit.Soon(t, "the end of the subscription", done)))
}

func TestSubscribingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	proxy, rdb, _ := through(t)
	release := proxy.HoldReply("subscribe")
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := subscribe(ctx, rdb, nil, "a")
		done <- err
	}()
	testkit.Until(t, "the server is asked", func() bool { return proxy.Seen("subscribe") > 0 })
	cancel()
	require.ErrorIs(t, testkit.Soon(t, "the end of the subscription", done), context.Canceled)
}
