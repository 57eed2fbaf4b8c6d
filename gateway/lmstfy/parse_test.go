package lmstfy

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestIDsHaveTheirTimeAndDelay(t *testing.T) {
	now := time.UnixMilli(1_795_000_000_123)
	for _, versioned := range []bool{false, true} {
		ids := newJobIDs(now, 3, 258, versioned)
		require.Less(t, ids[0], ids[1])
		require.Less(t, ids[1], ids[2])
		for _, id := range ids {
			at, known := publishedAt(id)
			require.True(t, known)
			require.Equal(t, now, at)
		}
	}
	raw := [16]byte{15: 1}
	require.Equal(t, strings.Repeat("0", 25)+"1", formatID(raw))
	binary.LittleEndian.PutUint32(raw[12:], 0)
	require.Equal(t, strings.Repeat("0", 26), formatID(raw))
	for _, id := range []string{
		"", "x", strings.Repeat("U", 26), "2" + newID(now), strings.Repeat("8", 26),
	} {
		_, known := publishedAt(id)
		require.False(t, known, id)
	}
}

func FuzzPublishedAt(f *testing.F) {
	f.Add(newID(time.UnixMilli(1)))
	f.Add("1" + newID(time.UnixMilli(1<<47)))
	f.Fuzz(func(t *testing.T, id string) {
		at, known := publishedAt(id)
		if known && (at.UnixMilli() < 0 || at.UnixMilli() >= 1<<48) {
			t.Errorf("%q was published at %v", id, at)
		}
	})
}

func FuzzParameters(f *testing.F) {
	for _, query := range []string{
		"delay=1&ttl=2&tries=3", "ttl=4294967296", "tries=65536", "tries=", "delay=%2B1",
		"ttr=0&count=100", "timeout=-1", "count=101", "delay=2&ttl=1", ";", "%",
	} {
		f.Add(query)
	}
	d := (&Config{TTL: time.Hour, Tries: 1}).defaults()
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		if p, problem := d.parsePublication(query); problem == "" {
			if p.tries == 0 || p.tries > 65535 || p.ttl > 0 && p.ttl < p.delay || p.ttl >= 1<<32 {
				t.Errorf("%q gives %+v", text, p)
			}
			for _, option := range p.options("x", nil) {
				if ttl, is := option.(qless.TTL); is && time.Duration(ttl) <= seconds(p.delay) {
					t.Errorf("%q has a TTL of %v", text, time.Duration(ttl))
				}
			}
		}
		if c, problem := d.parseConsumption(query); problem == "" {
			if c.count < 1 || c.count > maxBatch || c.ttr < 0 || c.timeout < 0 {
				t.Errorf("%q gives %+v", text, c)
			}
		}
	})
}

func FuzzBulk(f *testing.F) {
	for _, body := range []string{
		`[1, "a", {"b": [null]}]`, `null`, `[]`, `{}`, `[1`, "[\"\xff\"]", ``, `[,]`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		jobs, status, problem := parseBulk(body)
		taken := len(jobs) > 0 && len(jobs) <= maxBulkJobs
		if (problem == "") != (status == 0) || problem == "" && !taken {
			t.Errorf("%q gives %d jobs, %d %s", body, len(jobs), status, problem)
		}
		for _, job := range jobs {
			if !bytes.Contains(body, job) {
				t.Errorf("%q is not as it was sent", job)
			}
		}
	})
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte(""), "{}")
	f.Add([]byte("\x00\xff"), `{"body":"!"}`)
	f.Fuzz(func(t *testing.T, body []byte, data string) {
		job := &qless.Job{Klass: Klass, Data: encodeBody(body)}
		if !bytes.Equal(body, bodyOf(job)) {
			t.Errorf("%q became %q", body, bodyOf(job))
		}
		job.Data = []byte(data)
		_ = bodyOf(job)
	})
}

func FuzzNames(f *testing.F) {
	f.Add("PUT", "/api/ns/q", "a:b")
	f.Add("GET", "/api/ns/q1,,q2/", "default:")
	f.Add("GET", "/api/ns/q/deadletter/size/", ":")
	f.Add("GET", "/api//q/job/x/", "")
	f.Fuzz(func(t *testing.T, method, path, token string) {
		r := &request{Request: &http.Request{Method: method, URL: &url.URL{Path: path}}}
		route, _ := r.findRoute()
		if route != nil && checkNames(r.namespace, r.queue, route.action == consume) == "" {
			for _, queue := range queuesOf(r.queue) {
				if !isName(r.namespace, "") || !isName(queue, "") {
					t.Errorf("%s %q has the queue %q", method, path, r.queueName(queue))
				}
			}
		}
		if pool, _ := splitToken(token); pool == "" {
			t.Errorf("%q has no pool", token)
		}
	})
}

func FuzzLoggedQueries(f *testing.F) {
	for _, query := range []string{"a=1&", "x;", "token=a&", "%zz&", ""} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, before string) {
		const secret = "a-secret-of-a-token"
		for _, after := range []string{secret, secret + ";x", secret + "%", secret + "&token=" + secret} {
			link := &url.URL{RawQuery: before + "&token=" + after}
			r := &request{Request: &http.Request{URL: link}, values: link.Query()}
			if logged := r.loggedQuery(); strings.Contains(logged, secret) {
				t.Errorf("%q is logged as %q", link.RawQuery, logged)
			}
		}
	})
}

func FuzzAttributes(f *testing.F) {
	f.Add("Job-Attr-Color", "blue")
	f.Add("Job-Attr-", "\xff\xfe")
	f.Add("Job-Attr-"+strings.Repeat("A", 40), strings.Repeat("é", 100))
	f.Fuzz(func(t *testing.T, name, value string) {
		for key, value := range attributesOf(http.Header{name: {value}}) {
			if key == "" || len(key) > maxAttributeKey*3 || len([]rune(value)) > maxAttributeValue {
				t.Errorf("%q: %q", key, value)
			}
		}
	})
}

func TestSweepsThatHaveMoreToDoAreCounted(t *testing.T) {
	m := newMetrics()
	m.begin("p")
	m.swept("p", sweptAtOnce)
	m.swept("p", 1)
	var text bytes.Buffer
	m.timerDue.write(&text)
	m.timerFull.write(&text)
	require.Contains(t, text.String(), `timer_due_jobs{pool="p"} 101`)
	require.Contains(t, text.String(), `timer_full_batches{pool="p"} 1`)
}
