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

// ofThem is verb for things named before.
func ofThem(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
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
	if more := len(names) - len(shown); more > 0 {
		return strings.Join(shown, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(shown, ", ")
}

// first returns the first items, as many as a cause may name.
func first[T any](items []T) []T { return items[:min(len(items), maxNamed)] }

// names returns the names of workers.
func names(workers []inspect.Worker) []string {
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

// klassesOf returns the klasses of the jobs in some lists, each once, except for jobs that are
// parked at a limit.
func klassesOf(lists ...[]inspect.Row) []string {
	var klasses []string
	for _, jobs := range lists {
		for i := range jobs {
			klass := jobs[i].Klass
			if klass != "" && jobs[i].Parked == "" && !slices.Contains(klasses, klass) {
				klasses = append(klasses, klass)
			}
		}
	}
	return klasses
}

// withKlass returns the jids of the jobs of a klass.
func withKlass(klass string, lists ...[]inspect.Row) []string {
	var jids []string
	for _, jobs := range lists {
		for i := range jobs {
			if jobs[i].Klass == klass && jobs[i].Parked == "" {
				jids = append(jids, jobs[i].JID)
			}
		}
	}
	return jids
}
