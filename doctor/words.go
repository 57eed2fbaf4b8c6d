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

// waits describes n waiting jobs or, if n is 0, recurring jobs that are due.
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
	case len(names) == maxNamed: // there may be others
		return fmt.Sprintf("%s and at least %d more", text, more)
	case more > 0:
		return fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// silence returns a sentence about unregistered workers, if there are any.
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

// first returns the first items, as many as a reason may name.
func first[T any](items []T) []T { return items[:min(len(items), maxNamed)] }

// names returns the names of workers.
func names(workers []inspect.WorkerStatus) []string {
	all := make([]string, len(workers))
	for i := range workers {
		all[i] = workers[i].Name
	}
	return all
}

// workersOf returns the workers that have jobs, each once.
func workersOf(jobs []inspect.Row) []string {
	var workers []string
	for i := range jobs {
		if name := jobs[i].Worker; name != "" && !slices.Contains(workers, name) {
			workers = append(workers, name)
		}
	}
	return workers
}

// klassesOf returns the klasses of jobs, each once, except for jobs that are parked at a limit.
func klassesOf(jobs []inspect.Row) []string {
	var klasses []string
	for i := range jobs {
		klass := jobs[i].Klass
		if klass != "" && jobs[i].Parked == "" && !slices.Contains(klasses, klass) {
			klasses = append(klasses, klass)
		}
	}
	return klasses
}

// withKlass returns the jids of the jobs of a klass, with the same exception.
func withKlass(klass string, jobs []inspect.Row) []string {
	var jids []string
	for i := range jobs {
		if jobs[i].Klass == klass && jobs[i].Parked == "" {
			jids = append(jids, jobs[i].JID)
		}
	}
	return jids
}
