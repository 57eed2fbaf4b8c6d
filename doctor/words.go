package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/inspect"
)

// count returns a number of things in words.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// verb returns a number of things with the right form of a verb.
func verb(n int, thing, one, many string) string {
	if n == 1 {
		return count(n, thing) + " " + one
	}
	return count(n, thing) + " " + many
}

// waits describes n waiting jobs or, if n is 0, due recurring jobs.
func waits(n int) string {
	if n == 0 {
		return "recurring jobs are due"
	}
	return verb(n, "job", "waits", "wait")
}

// clock returns a time in words.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// shownNames is the maximum number of names in a sentence.
const shownNames = 5

// list returns names in words.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	shown := slices.Clone(names[:min(len(names), shownNames)])
	more, text := len(names)-len(shown), strings.Join(shown, ", ")
	switch {
	case len(names) == maxNamed: // more may exist
		return fmt.Sprintf("%s and at least %d more", text, more)
	case more > 0:
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// silence returns a sentence about unregistered workers, if any.
func silence(workers int) string {
	if workers == 0 {
		return ""
	}
	return fmt.Sprintf(" The queues of %s are unknown: clients that pop, workers in other languages,"+
		" or dead workers.", count(workers, "listed worker"))
}

// expired counts jobs with expired locks.
func expired(n int) string {
	return verb(n, "job", "with an expired lock", "with expired locks")
}

// maxNamed is the maximum number of names in a reason.
const maxNamed = 20

// first returns as many of the first items as a reason may name.
func first[T any](items []T) []T { return items[:min(len(items), maxNamed)] }

// each returns the distinct, nonempty names of items.
func each[T any](items []T, name func(*T) string) []string {
	var names []string
	for i := range items {
		if n := name(&items[i]); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// names returns the names of workers.
func names(workers []inspect.WorkerStatus) []string {
	return each(workers, func(w *inspect.WorkerStatus) string { return w.Name })
}

// jidsOf returns the jids of jobs.
func jidsOf(jobs []inspect.Row) []string {
	return each(jobs, func(r *inspect.Row) string { return r.JID })
}

// workersOf returns the workers with jobs.
func workersOf(jobs []inspect.Row) []string {
	return each(jobs, func(r *inspect.Row) string { return r.Worker })
}

// limitsOf returns the limits at which jobs are parked.
func limitsOf(jobs []inspect.Row) []string {
	return each(jobs, func(r *inspect.Row) string { return r.Parked })
}

// klassesOf returns the klasses of jobs, except for jobs parked at a limit.
func klassesOf(jobs []inspect.Row) []string {
	return each(jobs, func(r *inspect.Row) string {
		if r.Parked != "" {
			return ""
		}
		return r.Klass
	})
}

// withKlass returns the jids of the jobs of a klass, except for jobs parked at a limit.
func withKlass(klass string, jobs []inspect.Row) []string {
	return each(jobs, func(r *inspect.Row) string {
		if r.Parked != "" || r.Klass != klass {
			return ""
		}
		return r.JID
	})
}
