package doctor_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

func TestWrongOptionsAreInvalid(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, options := range []doctor.Options{{Step: 1}, {Pause: -2}, {MaxFindings: -1}} {
		_, err := doctor.Examine(t.Context(), rdb, options)
		require.ErrorIs(t, err, qless.ErrInvalid)
	}
	_, err := doctor.Examine(t.Context(), nil, doctor.Options{})
	require.ErrorIs(t, err, qless.ErrInvalid)
	_, err = doctor.Explain(t.Context(), nil, "q")
	require.ErrorIs(t, err, qless.ErrInvalid)
}

func TestAServerThatIsAwayIsUnavailable(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	_, err := doctor.Examine(t.Context(), rdb, doctor.Options{})
	require.ErrorIs(t, err, qless.ErrUnavailable)
	_, err = doctor.EstimateExam(t.Context(), rdb, doctor.Options{})
	require.ErrorIs(t, err, qless.ErrUnavailable)
	_, err = doctor.Fix(t.Context(), rdb, doctor.Options{}, doctor.Reason{
		Code: doctor.ReasonGhost, Key: "ql:q:q-work", Member: "j", Fixable: true,
	})
	require.ErrorIs(t, err, qless.ErrUnavailable)
}
