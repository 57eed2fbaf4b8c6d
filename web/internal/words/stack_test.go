package words

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStackIsFoldedButForTheProgram(t *testing.T) {
	parts := Stack("index out of range\n\ngoroutine 9 [running]:\n" +
		"runtime/debug.Stack()\n\t/go/stack.go:26\npanic({0x1, 0x2})\n\t/go/panic.go:792\n" +
		"shop.Charge(0x1)\n\t/src/charge.go:41\nshop.handle()\n\t/src/handle.go:7\n" +
		"github.com/qless/qless-go.(*Worker).call()\n\t/mod/worker_run.go:88\n" +
		"created by shop.main\n\t/src/main.go:5")
	require.Len(t, parts, 5)
	require.Equal(t, "index out of range\n\ngoroutine 9 [running]:", parts[0].Text)
	require.True(t, parts[1].IsFolded)
	require.Equal(t, "2 frames of the runtime and the worker", parts[1].Title())
	require.True(t, parts[2].IsMarked)
	require.Equal(t, "shop.Charge(0x1)\n\t/src/charge.go:41", parts[2].Text)
	require.Equal(t, "shop.handle()\n\t/src/handle.go:7", parts[3].Text)
	require.True(t, parts[4].IsFolded)

	require.Equal(t, []Part{{Text: "line one\n\tat line two"}}, Stack("line one\n\tat line two"))
}
