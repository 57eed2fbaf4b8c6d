package web_test

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// An element is a start tag of a page.
type element struct {
	name  string
	attrs map[string]string
}

// The elements of the dashboard, and those without an end tag.
var (
	known = strings.Fields(`a abbr b body button caption circle code col colgroup datalist dd desc
		details div dl dt ellipse em fieldset figcaption figure footer form g h1 h2 h3 h4 head header
		html i input kbd label legend li line link main marker mark meta meter nav noscript ol optgroup
		option p path pattern polygon polyline pre progress rect samp script section select small span
		strong sub summary sup svg table tbody td text textarea tfoot th thead time title tr tspan ul
		use var wbr defs hr br output search aside article address`)
	endless = strings.Fields(`col hr br img input link meta wbr`)
)

// A markup is a tag of a page.
type markup struct {
	element
	isEnd   bool
	isEmpty bool // it ends itself, as in SVG
	length  int
}

// readTag reads the tag at the start of a text.
func readTag(text string) (markup, bool) {
	end := strings.IndexByte(text, '>')
	if end < 0 {
		return markup{}, false
	}
	inside := text[1:end]
	m := markup{length: end + 1}
	inside, m.isEnd = strings.CutPrefix(inside, "/")
	inside, m.isEmpty = strings.CutSuffix(inside, "/")
	at := strings.IndexAny(inside, " \t\n")
	if at < 0 {
		at = len(inside)
	}
	m.name, inside = inside[:at], inside[at:]
	m.attrs = map[string]string{}
	for {
		if inside = strings.TrimLeft(inside, " \t\n"); inside == "" {
			return m, true
		}
		at := strings.IndexAny(inside, " \t\n=\"'<`")
		if at < 0 {
			at = len(inside)
		}
		name, rest := inside[:at], inside[at:]
		value, isQuoted := strings.CutPrefix(rest, `="`)
		switch {
		case name == "" || m.isEnd:
			return m, false
		case isQuoted:
			var found bool
			value, rest, found = strings.Cut(value, `"`)
			if !found || strings.Contains(value, "<") {
				return m, false
			}
		case rest != "" && !strings.ContainsAny(rest[:1], " \t\n"):
			return m, false
		default:
			value = ""
		}
		m.attrs[name] = html.UnescapeString(value)
		inside = rest
	}
}

// elementsOf parses a page strictly: each start tag has its end tag, each attribute its quotes, and
// there is no markup but that of the templates. It returns the elements, or an error.
func elementsOf(page string) ([]element, error) {
	if !utf8.ValidString(page) || strings.ContainsRune(page, 0) {
		return nil, fmt.Errorf("the page is not UTF-8, or has a NUL")
	}
	rest, found := strings.CutPrefix(page, "<!DOCTYPE html>")
	if !found {
		return nil, fmt.Errorf("no doctype: %.80q", page)
	}
	var all []element
	var open []string
	for {
		text, _, _ := strings.Cut(rest, "<")
		if strings.Contains(text, ">") {
			return nil, fmt.Errorf("a > in a text: %.200q", text)
		}
		if rest = rest[len(text):]; rest == "" {
			break
		}
		m, ok := readTag(rest)
		if !ok {
			return nil, fmt.Errorf("no tag: %.200q", rest)
		}
		rest = rest[m.length:]
		isIcon := m.name == "img" && strings.HasSuffix(m.attrs["src"], "/static/icon.svg")
		if !slices.Contains(known, m.name) && !isIcon {
			return nil, fmt.Errorf("a strange element: %.200q", m.name)
		}
		if m.isEnd {
			if len(open) == 0 || open[len(open)-1] != m.name {
				return nil, fmt.Errorf("</%s> does not end %v", m.name, open)
			}
			open = open[:len(open)-1]
			continue
		}
		all = append(all, m.element)
		if !m.isEmpty && !slices.Contains(endless, m.name) {
			open = append(open, m.name)
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("no end: %v", open)
	}
	return all, nil
}

// requireSound checks that a page is well-formed, has no markup but its own, links only to the
// dashboard, and that references to its elements are valid.
func requireSound(t *testing.T, url, page string) []element {
	t.Helper()
	elements, err := elementsOf(page)
	require.NoError(t, err, "%s\n%s", url, page)
	ids := map[string]bool{}
	for _, e := range elements {
		if id, has := e.attrs["id"]; has {
			if ids[id] {
				t.Fatalf("%s has the id %s twice", url, id)
			}
			ids[id] = true
		}
	}
	scripts := 0
	for _, e := range elements {
		for name, value := range e.attrs {
			if strings.HasPrefix(name, "on") || slices.Contains([]string{"style", "srcdoc", "pwned"}, name) {
				t.Fatalf("%s has the attribute %s", url, name)
			}
			switch name {
			case "href", "src", "action", "formaction":
				isHere := strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//")
				if !isHere && !strings.HasPrefix(value, "#") {
					t.Fatalf("%s leads to %q", url, value)
				}
			case "for", "aria-labelledby", "aria-describedby":
				for _, id := range strings.Fields(value) {
					if !ids[id] {
						t.Fatalf("%s has no %q for %s", url, id, name)
					}
				}
			}
		}
		if e.name == "script" {
			scripts++
			require.NotEmpty(t, e.attrs["src"], url)
		}
	}
	require.LessOrEqual(t, scripts, 1, url)
	return elements
}

// A sheet is a form of a page: its hidden inputs and the URLs of its buttons.
type sheet struct {
	actions []string
	values  map[string][]string
}

// sheetsOf returns the forms of a page that change something.
func sheetsOf(elements []element) []sheet {
	var all []sheet
	for _, e := range elements {
		switch {
		case e.name == "form":
			all = append(all, sheet{values: map[string][]string{}})
			if e.attrs["action"] != "" {
				all[len(all)-1].actions = []string{e.attrs["action"]}
			}
		case len(all) == 0:
		case e.name == "button" && e.attrs["formaction"] != "":
			last := &all[len(all)-1]
			last.actions = append(last.actions, e.attrs["formaction"])
		case e.name == "input" && (e.attrs["type"] == "hidden" || e.attrs["name"] == "job"):
			values := all[len(all)-1].values
			values[e.attrs["name"]] = append(values[e.attrs["name"]], e.attrs["value"])
		}
	}
	return all
}

func TestUnsoundPagesAreFound(t *testing.T) {
	for _, body := range []string{
		`<p>a > b</p>`, `<p>a < b</p>`, `<p>`, `</p>`, `<p><b></p></b>`, `<iframe></iframe>`,
		`<img src="/x">`, `<p class=x></p>`, `<p class="a"b"></p>`, `<p title="<b>"></p>`, "<p>\x00</p>",
		"<p>\xff</p>", `<!-- -->`, `<p title='x'></p>`,
	} {
		_, err := elementsOf("<!DOCTYPE html>" + body)
		require.Error(t, err, body)
	}
	elements, err := elementsOf(`<!DOCTYPE html><p id="a"
		title="&lt;b>"><input disabled name="x"><svg><rect width="1"/></svg></p>`)
	require.Error(t, err) // in HTML, a > in an attribute does not end the tag, but ours have none
	require.Nil(t, elements)
	elements, err = elementsOf(`<!DOCTYPE html><p id="a"
		title="&lt;b&gt;"><input disabled name="x"><svg><rect width="1"/></svg></p>`)
	require.NoError(t, err)
	require.Len(t, elements, 4)
	require.Equal(t, "<b>", elements[0].attrs["title"])
}
