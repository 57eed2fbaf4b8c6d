package lmstfy

import (
	"strings"
)

// maxName is the maximum length of the name of a namespace or queue, in bytes.
const maxName = 255

const (
	namespaceForbidden = "namespace name contains forbidden characters"
	queueForbidden     = "queue name contains forbidden characters"
)

// isName reports whether a text consists of letters, digits, "-", "_" and the extra characters.
func isName(text, extra string) bool {
	if text == "" {
		return false
	}
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		case strings.IndexByte(extra, c) >= 0:
		default:
			return false
		}
	}
	return true
}

// checkNames returns the problem with the names in a path, or the empty string. The path of a
// consumer may name several queues.
func checkNames(namespace, queue string, consume bool) string {
	if consume {
		switch {
		case !isName(namespace, ""):
			return namespaceForbidden
		case !isName(queue, ","):
			return queueForbidden
		}
		return ""
	}
	switch {
	case len(namespace) > maxName || len(queue) > maxName:
		return "namespace or queue name too long"
	case !isName(namespace, ""):
		return namespaceForbidden
	case strings.HasPrefix(queue, "_") || !isName(queue, ""):
		return queueForbidden
	}
	return ""
}

// queuesOf returns the names in a comma-separated list of queues, without duplicates.
func queuesOf(list string) (names []string) {
	known := map[string]bool{}
	for name := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' }) {
		if !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	return names
}

// splitToken returns the pool and the token of "pool:token".
func splitToken(text string) (pool, token string) {
	if pool, token, found := strings.Cut(text, ":"); found {
		return poolName(pool), token
	}
	return DefaultPool, text
}

func poolName(name string) string {
	if name == "" {
		return DefaultPool
	}
	return name
}

// DefaultPool is the name of the pool for tokens that name none.
const DefaultPool = "default"
