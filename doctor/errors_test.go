package doctor_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// away returns a client of no server.
func away(t *testing.T) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestWrongOptionsAreInvalid(t *testing.T) {
	ctx, rdb := t.Context(), away(t)
	for _, options := range []doctor.Options{
		{Step: 1}, {Step: 9}, {Step: 1001}, {Step: -1}, {Pause: -2}, {MaxFindings: -1},
	} {
		for _, err := range []error{
			errOf(doctor.Examine(ctx, rdb, options)),
			errOf(doctor.Fix(ctx, rdb, options)),
			errOf(doctor.EstimateExam(ctx, rdb, options)),
		} {
			require.ErrorIs(t, err, qless.ErrInvalid, "%+v", options)
		}
	}
	require.ErrorIs(t, errOf(doctor.Examine(ctx, nil, doctor.Options{})), qless.ErrInvalid)
	require.ErrorIs(t, errOf(doctor.Explain(ctx, nil, "q")), qless.ErrInvalid)
}

func TestAServerThatIsAwayIsUnavailable(t *testing.T) {
	ctx, rdb := t.Context(), away(t)
	ghost := doctor.Reason{Code: doctor.ReasonGhost, Key: "ql:q:q-work", Member: "j", Fixable: true}
	for _, err := range []error{
		errOf(doctor.Examine(ctx, rdb, doctor.Options{})),
		errOf(doctor.EstimateExam(ctx, rdb, doctor.Options{})),
		errOf(doctor.Fix(ctx, rdb, doctor.Options{}, ghost)),
	} {
		require.ErrorIs(t, err, qless.ErrUnavailable)
	}
}
