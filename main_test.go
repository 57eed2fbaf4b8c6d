package qless_test

import (
	"testing"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/testbed"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// noon is when the clocks of the tests begin.
var noon = testkit.Noon

var (
	jsonOf      = testbed.JSONOf
	offline     = testbed.Offline
	raw         = testbed.Raw
	readFile    = testbed.ReadFile
	requireCode = testbed.RequireCode
)
