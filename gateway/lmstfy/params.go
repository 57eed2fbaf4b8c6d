package lmstfy

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The limits of the protocol.
const (
	maxJobSize        = 1 << 20
	maxBulkJobs       = 64
	maxBatch          = 100
	maxAttributes     = 16
	maxAttributeKey   = 32
	maxAttributeValue = 128
)

// maxLock is the longest possible lock of a job.
const maxLock = 24 * time.Hour

// number returns a query parameter, or its default.
func number(query url.Values, name string, bits int, missing uint64) (uint64, bool) {
	values, given := query[name]
	if !given {
		return missing, true
	}
	n, err := strconv.ParseUint(values[0], 10, bits)
	return n, err == nil
}

// A publication holds the parameters of a publish request.
type publication struct {
	delay, ttl, tries uint64
}

// parsePublication parses the query of a publish. It returns a description of the problem, or the
// empty string.
func (d *defaults) parsePublication(query url.Values) (p publication, problem string) {
	var valid bool
	if p.delay, valid = number(query, "delay", 32, d.delay); !valid {
		return p, "invalid delay"
	}
	if p.ttl, valid = number(query, "ttl", 32, d.ttl); !valid {
		return p, "invalid ttl"
	}
	if p.ttl > 0 && p.ttl < p.delay {
		return p, "ttl is shorter than delay"
	}
	if p.tries, valid = number(query, "tries", 16, d.tries); !valid {
		return p, "invalid tries"
	}
	if p.tries == 0 {
		return p, "tries shouldn't be zero"
	}
	return p, ""
}

// A consumption holds the parameters of a consumer's request.
type consumption struct {
	ttr, timeout time.Duration
	count        int
}

// parseConsumption parses the query of a consumer. It returns a description of the problem, or the
// empty string.
func (d *defaults) parseConsumption(query url.Values) (c consumption, problem string) {
	ttr, valid := number(query, "ttr", 32, d.ttr)
	if !valid {
		return c, "invalid ttr"
	}
	timeout, valid := number(query, "timeout", 32, d.timeout)
	if !valid {
		return c, "invalid timeout"
	}
	count, valid := number(query, "count", 32, 1)
	if !valid || count == 0 || count > maxBatch {
		return c, "invalid count"
	}
	return consumption{ttr: seconds(ttr), timeout: seconds(timeout), count: int(count)}, ""
}

func seconds(n uint64) time.Duration { return time.Duration(n) * time.Second }

// attributePrefix begins the names of headers with attributes of jobs.
const attributePrefix = "Job-Attr-"

// isVersioned reports whether a request wants ids of version 1. Only jobs with such ids keep
// attributes.
func isVersioned(header http.Header) bool {
	return strings.EqualFold(header.Get("Enable-Job-Version"), "YES")
}

// attributesOf returns the attributes in the headers of a request. Long keys and values are cut,
// and invalid UTF-8 is replaced.
func attributesOf(header http.Header) map[string]string {
	found := map[string]string{}
	for name, values := range header {
		key, is := strings.CutPrefix(name, attributePrefix)
		if !is || key == "" || values[0] == "" {
			continue
		}
		key = cut(key, maxAttributeKey)
		found[strings.ToLower(key)] = string([]rune(cut(values[0], maxAttributeValue)))
	}
	return found
}

func cut(text string, length int) string { return text[:min(len(text), length)] }

// signed returns a parameter that is an integer of at least smallest.
func signed(query url.Values, name string, smallest, missing int64) (int64, bool) {
	values, given := query[name]
	if !given {
		return missing, true
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	return n, err == nil && n >= smallest
}

// defaults are the defaults of omitted parameters.
type defaults struct {
	ttl, delay, tries, ttr, timeout uint64
}
