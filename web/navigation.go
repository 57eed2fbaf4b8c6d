package web

import (
	"slices"

	"github.com/qless/qless-go/web/internal/words"
)

// A section is an entry of the navigation. Key is the letter to type after a g.
type section struct {
	Name, Title, Path, Key string
	Icon                   string // a path in a square of 16
	Count                  string // a count, if known
	Bad                    bool   // needs attention
}

// A group is a part of the navigation.
type group struct {
	Title    string
	Sections []section
}

// sections are the entries of the navigation.
var sections = []group{
	{"", []section{
		{"overview", "Overview", "", "o", "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z", "", false},
		{"queues", "Queues", "queues", "q", "M2 4h12M2 8h12M2 12h8", "", false},
	}},
	{"Jobs", []section{
		{"find", "Find", "find", "n", "M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2zM11 11l3 3", "", false},
		{"failures", "Failures", "failures", "f", "M8 2l6.5 12h-13zM8 6.5V10M8 11.7v1", "", false},
		{"completed", "Completed", "completed", "c", "M2.5 8.5L6 12l7.5-8", "", false},
		{"batches", "Batches", "batches", "b", "M2 2h8v8H2zM6 12.5v1.5h8V6h-1.5", "", false},
		{"unique", "Unique keys", "unique", "u",
			"M5.5 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 8h6v2.5M11.5 8v2", "", false},
		{"klasses", "Klasses", "klasses", "k", "M6 3L2 8l4 5M10 3l4 5-4 5", "", false},
		{"tags", "Tags", "tags", "e", "M2 2h6l6 6-6 6-6-6zM5 5h.5", "", false},
		{"tracked", "Tracked", "tracked", "t", "M4 2h8v12l-4-3-4 3z", "", false},
	}},
	{"Work", []section{
		{"workers", "Workers", "workers", "w", "M2 3h12v8H2zM5 14h6M8 11v3", "", false},
		{"recurring", "Recurring", "recurring", "r", "M13 6A5.5 5.5 0 1 0 13.5 9M13 2v4H9", "", false},
		{"schedules", "Schedules", "schedules", "d",
			"M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.5V8l2.5 1.5", "", false},
		{"limits", "Limits", "limits", "l", "M2 12a6 6 0 1 1 12 0M8 12l3-4", "", false},
	}},
	{"System", []section{
		{"activity", "Activity", "activity", "a", "M1 8h3l2-5 4 10 2-5h3", "", false},
		{"doctor", "Doctor", "doctor", "h", "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z", "", false},
		{"server", "Server", "server", "v", "M2 3h12v4H2zM2 9h12v4H2zM4 5h1M4 11h1", "", false},
		{"settings", "Settings", "settings", "s",
			"M2 4h6M11 4h3M9.5 2.5v3M2 8h1M6 8h8M4.5 6.5v3M2 12h7M12 12h2M10.5 10.5v3", "", false},
	}},
}

// Navigation returns the sections with the counts of the last status, for pages of a namespace.
func (f *frame) Navigation() []group {
	if f.Section == "namespaces" {
		return nil
	}
	all := make([]group, len(sections))
	for i, one := range sections {
		all[i] = group{one.Title, slices.Clone(one.Sections)}
		for j := range all[i].Sections {
			f.Site.count(&all[i].Sections[j])
		}
	}
	return all
}

// count adds a count to a section.
func (s *site) count(section *section) {
	if n := s.exams.serious(); section.Name == "doctor" && n > 0 {
		section.Count, section.Bad = words.Number(n), true
	}
	status := s.last.Load()
	if status == nil {
		return
	}
	n := 0
	switch section.Name {
	case "queues":
		n = status.Total
	case "workers":
		n = status.Workers.Registered
	case "failures":
		n, section.Bad = status.Failed(), true
	case "limits":
		if full := len(status.FullLimits); full > 0 {
			section.Count, section.Bad = words.Number(full)+" full", true
		}
	}
	if n > 0 {
		section.Count = words.Number(n)
	}
}

// IsThumb reports whether the section is one of the four at the bottom of a phone.
func (s section) IsThumb() bool {
	return slices.Contains([]string{"overview", "queues", "failures", "workers"}, s.Name)
}
