package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/keys"
)

func TestEachCheckIsOfAKindOfKeys(t *testing.T) {
	kinds := map[string]bool{}
	for _, kind := range keys.Kinds() {
		kinds[kind.Pattern] = true
	}
	for pattern := range checks {
		require.True(t, kinds[pattern], pattern)
	}
}
