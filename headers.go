package qless

import (
	"context"
	"maps"
	"unicode/utf8"
)

// A HeaderOption is returned by [Header] and [Headers].
type HeaderOption struct{ headers map[string]string }

// Header gives a job a header: a text that travels with it through retries, failures and other
// queues, such as the context of a trace. Handlers find it in the Headers of [Job]. The job's data
// is not touched. Used several times, it adds to the others.
//
// The default is no headers, or what the job had: if a put or [Next] gives an existing job any,
// these replace all that it had. Keys and values must be UTF-8, no key may be empty, and all of
// them together may have at most 8 KiB; otherwise the error is [ErrInvalid].
func Header(key, value string) HeaderOption {
	return HeaderOption{map[string]string{key: value}}
}

// Headers gives a job several headers, as [Header] does. Headers(nil) takes away the headers of an
// existing job, and those that [WithHeaders] or an earlier option would give it.
func Headers(headers map[string]string) HeaderOption {
	return HeaderOption{maps.Clone(headers)}
}

func (o HeaderOption) applyPut(c *callOptions)  { c.addHeaders(o.headers) }
func (o HeaderOption) applyNext(c *callOptions) { c.addHeaders(o.headers) }

// addHeaders adds headers to those of the call. Without any, it removes them all.
func (c *callOptions) addHeaders(headers map[string]string) {
	if len(headers) == 0 {
		c.headers, c.noHeaders = nil, true
		return
	}
	if c.headers == nil {
		c.headers = make(map[string]string, len(headers))
	}
	maps.Copy(c.headers, headers)
}

// maxHeaders is how many bytes the keys and values of a job's headers may have.
const maxHeaders = 8 << 10

// checkHeaders returns an error if the headers can't be stored.
func (c *callOptions) checkHeaders(op string) error {
	size := 0
	for key, value := range c.headers {
		if err := checkName(op, "key of a header", key); err != nil {
			return err
		}
		if !utf8.ValidString(value) {
			return invalid(op, c.jid, "the value of the header %q is not UTF-8", key)
		}
		size += len(key) + len(value)
	}
	if size > maxHeaders {
		return invalid(op, c.jid, "the headers have %d bytes, which is more than %d",
			size, maxHeaders)
	}
	return nil
}

// WithHeaders sets a function that returns headers for each job that the client puts: alone or with
// others, or for a [Schedule]. It gets the context of the call; what it returns is copied.
// Headers that the call gives the job win over those with the same key, and Headers(nil) keeps the
// job without any. Neither [Next] nor [Job.Move] asks it, as the job has its headers already.
//
// The function is called by the goroutine that puts, so it must be safe for concurrent use if
// several do.
func WithHeaders(headers func(ctx context.Context) map[string]string) ClientOption {
	return func(c *Client) { c.headers = headers }
}

// addHeaders gives a job to be put the headers of [WithHeaders].
func (c *Client) addHeaders(ctx context.Context, p *put) error {
	if c.headers == nil || p.options.noHeaders {
		return nil
	}
	headers := maps.Clone(c.headers(ctx))
	if len(headers) == 0 {
		return nil
	}
	maps.Copy(headers, p.options.headers)
	p.options.headers = headers
	return p.options.checkHeaders("put")
}
