package lmstfy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// askWith makes a request with headers, and returns the answer's headers and body.
func (g *gateway) askWith(
	method, path, body string, headers map[string]string,
) (http.Header, string) {
	g.t.Helper()
	answer, text := g.request(g.api, method, path, body, headers)
	return answer.Header, text
}

func TestAJobCarriesTheContextOfATrace(t *testing.T) {
	g := start(t, nil)
	_, text := g.askWith("PUT", "/api/ns/q?tries=1", "body", map[string]string{
		"traceparent": traceparent, "tracestate": "a=1", "baggage": "customer=7", "other": "x",
	})
	job := must(g.client.Job(t.Context(), g.decode(text)["job_id"].(string)))(t)
	carried := map[string]string{
		"traceparent": traceparent, "tracestate": "a=1", "baggage": "customer=7",
	}
	require.Equal(t, qless.Headers(carried), job.Headers)

	header, _ := g.askWith("GET", "/api/ns/q?ttr=10", "", nil)
	for name, value := range carried {
		require.Equal(t, value, header.Get(name))
	}
}

func TestWhatIsCarriedLeavesAttributesAsTheyAre(t *testing.T) {
	g := start(t, nil)
	g.askWith("PUT", "/api/ns/q?tries=1", "body", map[string]string{
		"traceparent": traceparent, "Enable-Job-Version": "YES", "Job-Attr-Color": "red",
		"baggage": strings.Repeat("x", 9000),
	})
	header, text := g.askWith("GET", "/api/ns/q?ttr=10", "", nil)
	require.Equal(t, map[string]any{"color": "red", "traceparent": traceparent},
		g.decode(text)["attributes"], "baggage that does not fit is left out")
	require.Equal(t, traceparent, header.Get("traceparent"))
	require.Empty(t, header.Get("baggage"))
}

func TestEachJobOfABulkCarriesTheHeaders(t *testing.T) {
	g := start(t, nil)
	g.askWith("PUT", "/api/ns/q/bulk?tries=1", `["a", "b"]`, map[string]string{
		"traceparent": traceparent,
	})
	jobs := must(g.client.Queue("ns/q").Peek(t.Context(), 10))(t)
	require.Len(t, jobs, 2)
	for _, job := range jobs {
		require.Equal(t, qless.Headers{"traceparent": traceparent}, job.Headers)
	}
}

func TestWhichHeadersAreCarriedCanBeChosen(t *testing.T) {
	for name, c := range map[string]struct{ carried, want []string }{
		"others": {[]string{"X-Customer"}, []string{"x-customer"}},
		"none":   {[]string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, func(config *lmstfy.Config) { config.Carried = c.carried })
			g.askWith("PUT", "/api/ns/q?tries=1", "body", map[string]string{
				"traceparent": traceparent, "x-customer": "7",
			})
			jobs := must(g.client.Queue("ns/q").Peek(t.Context(), 1))(t)
			require.Len(t, jobs, 1)
			require.Len(t, jobs[0].Headers, len(c.want))
			for _, key := range c.want {
				require.Equal(t, "7", jobs[0].Headers[key])
			}
			header, _ := g.askWith("GET", "/api/ns/q?ttr=10", "", nil)
			require.Empty(t, header.Get("traceparent"))
		})
	}
	_, err := lmstfy.New(lmstfy.Config{Carried: []string{""}})
	require.Error(t, err)
}
