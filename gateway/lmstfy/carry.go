package lmstfy

import (
	"maps"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/qless/qless-go"
)

// carried returns the attributes of a new job together with the request headers that it carries, in
// lower case. Headers that do not fit are left out.
func (r *request) carried(attributes map[string]string) map[string]string {
	all := maps.Clone(attributes)
	if all == nil {
		all = map[string]string{}
	}
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	for _, name := range r.server.config.Carried {
		key, value := strings.ToLower(name), strings.Join(r.Header.Values(name), ",")
		_, given := all[key]
		fits := size+len(key)+len(value) <= maxHeaders
		if value == "" || given || !fits || !utf8.ValidString(value) {
			continue
		}
		all[key] = value
		size += len(key) + len(value)
	}
	return all
}

// maxHeaders is the maximum size of a job's headers, in bytes.
const maxHeaders = 8 << 10

// giveBack adds the headers that a job carries to the answer to a consumer.
func (r *request) giveBack(header http.Header, job *qless.Job) {
	for _, name := range r.server.config.Carried {
		if value := job.Headers[strings.ToLower(name)]; value != "" {
			header.Set(name, value)
		}
	}
}
