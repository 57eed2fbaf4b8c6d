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
	page := d.shows("/settings", `value="90"`)
	require.Equal(t, 3, strings.Count(page, `formaction="/actions/config.unset"`))
	contains(t, page, `<a href="/queues/ma%2Fil">ma/il</a>`, "unheard-of",
		"The most jobs of the queue that run at once")
	require.NotContains(t, page, "<b>")

	d = d.again(web.Options{ReadOnly: true})
	page = d.shows("/settings", "<span>1m30s</span>")
	require.NotContains(t, page, "/actions/")
}
