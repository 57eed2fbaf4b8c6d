package web

// sectionKeys are the letters that lead to the sections after a g, by the script.
var sectionKeys = map[string]string{
	"overview": "o", "queues": "q", "find": "n", "failures": "f", "klasses": "k", "workers": "w",
	"recurring": "r", "schedules": "d", "limits": "l", "tracked": "t", "tags": "e", "completed": "c",
	"activity": "a", "settings": "s", "server": "v",
}

// Key is the letter that leads to the section.
func (s section) Key() string { return sectionKeys[s.Name] }
