package qless

import (
	"context"
	"maps"
	"slices"
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
// job without any. Neither [Job.Next] nor [Job.Move] asks it, as the job has its headers already:
// see [WithNextHeaders].
//
// The function is called by the goroutine that puts, so it must be safe for concurrent use if
// several do. Used several times, all functions are called, and the last one that returns a key
// decides.
func WithHeaders(headers func(ctx context.Context) map[string]string) ClientOption {
	return func(c *Client) {
		if headers != nil {
			c.headerFuncs = append(slices.Clip(c.headerFuncs), headers)
		}
	}
}

// WithNextHeaders sets a function that returns the headers with which a job goes on by [Job.Next],
// such as those with the context of the run that sends it on. It gets the context of the call and
// a copy of the headers that the job has, or nil if the call gives it headers: those are added to
// what it returns, and win. It is not asked if the call has Headers(nil), nor for a handler that
// returns [Next], to which a middleware can add headers. If the job would have more than 8 KiB of
// headers, it goes on with those that it would have without the function.
//
// The function must be safe for concurrent use.
func WithNextHeaders(
	headers func(ctx context.Context, headers map[string]string) map[string]string,
) ClientOption {
	return func(c *Client) { c.nextHeaders = headers }
}

// addNextHeaders gives a job that goes on the headers of [WithNextHeaders].
func (j *Job) addNextHeaders(ctx context.Context, o *callOptions) {
	if j.client.nextHeaders == nil || o.noHeaders && len(o.headers) == 0 {
		return
	}
	var own map[string]string
	if len(o.headers) == 0 {
		own = maps.Clone(j.Headers)
	}
	all := callOptions{headers: maps.Clone(j.client.nextHeaders(ctx, own))}
	if len(o.headers) > 0 {
		all.addHeaders(o.headers)
	}
	if len(all.headers) > 0 && all.checkHeaders("complete") == nil {
		o.headers = all.headers
	}
}

// headersFor returns what the functions of [WithHeaders] give to a job.
func (c *Client) headersFor(ctx context.Context) map[string]string {
	all := map[string]string{}
	for _, headers := range c.headerFuncs {
		maps.Copy(all, headers(ctx))
	}
	return all
}

// safeHeadersFor is headersFor, with what it has so far if one of the functions panics.
func (c *Client) safeHeadersFor(ctx context.Context) (all map[string]string) {
	all = map[string]string{}
	defer panicHarmless(c.logger, "a function for headers")
	for _, headers := range c.headerFuncs {
		maps.Copy(all, headers(ctx))
	}
	return all
}

// addHeaders gives a job to be put the headers of [WithHeaders].
func (c *Client) addHeaders(ctx context.Context, p *put) error {
	if c.headerFuncs == nil || p.options.noHeaders {
		return nil
	}
	headers := c.headersFor(ctx)
	if len(headers) == 0 {
		return nil
	}
	maps.Copy(headers, p.options.headers)
	p.options.headers = headers
	return p.options.checkHeaders("put")
}
