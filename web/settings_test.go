package web_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/web"
)

func TestSettingsHaveTheirDefaultsUntilTheyAreSet(t *testing.T) {
	d := newDesk(t, web.Options{})
	known := d.read("/settings")["known"].([]any)
	values, err := d.Config().All(t.Context())
	d.do(err)
	defaults := map[string]string{}
	for _, one := range known {
		one := one.(map[string]any)
		require.NotEmpty(t, one["meaning"], one["name"])
		if text, ok := one["default"].(string); ok {
			defaults[one["name"].(string)] = text
		}
	}
	require.Equal(t, values, defaults, "the page knows all defaults")
	require.Len(t, known, 14)

	d.do(d.Config().Set(t.Context(), "heartbeat", 90))
	d.do(d.Queue("ma/il").SetMaxConcurrency(t.Context(), 7))
	_, err = d.Client.Do(t.Context(), "config.set", "unheard-of", "<b>")
	d.do(err)
	d = d.again(web.Options{})
	page := d.page("/settings")
	require.Contains(t, page, `value="90"`)
	require.Equal(t, 3, strings.Count(page, `formaction="/actions/config.unset"`))
	require.Contains(t, page, `<a href="/queues/ma%2Fil">ma/il</a>`)
	require.Contains(t, page, "unheard-of")
	require.NotContains(t, page, "<b>")
	require.Contains(t, page, "The most jobs of the queue that run at once")

	d = d.again(web.Options{ReadOnly: true})
	page = d.page("/settings")
	require.NotContains(t, page, "/actions/")
	require.Contains(t, page, "<span>1m30s</span>")
}
