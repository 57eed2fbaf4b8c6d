package web

// A section is an entry of the navigation.
type section struct{ Name, Title, Path string }

// Sections are the entries of the navigation.
func (f *frame) Sections() []section {
	return []section{
		{"overview", "Overview", ""},
		{"queues", "Queues", "queues"},
		{"find", "Find", "find"},
		{"failures", "Failures", "failures"},
		{"klasses", "Klasses", "klasses"},
		{"workers", "Workers", "workers"},
		{"recurring", "Recurring", "recurring"},
		{"limits", "Limits", "limits"},
		{"tracked", "Tracked", "tracked"},
		{"tags", "Tags", "tags"},
		{"completed", "Completed", "completed"},
		{"activity", "Activity", "activity"},
		{"settings", "Settings", "settings"},
		{"server", "Server", "server"},
	}
}
