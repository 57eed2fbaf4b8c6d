package calls

import "regexp"

// traceparent matches the W3C header with the context of a trace.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}`)

// TraceID returns the ID of the trace in which a job was put, or the empty string.
func TraceID(headers map[string]string) string {
	if parts := traceparent.FindStringSubmatch(headers["traceparent"]); parts != nil {
		return parts[1]
	}
	return ""
}
