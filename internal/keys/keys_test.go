package keys_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/keys"
)

// namesOf returns all names in a key, in the order of its pattern.
func namesOf(key keys.Key) (values []string) {
	for _, name := range key.Names() {
		values = append(values, key.Name(name))
	}
	return values
}

// With any names, a key of a known type shows its kind and the names.
func FuzzKeysAreTakenApart(f *testing.F) {
	for _, name := range []string{
		"", "mail", "a:b", "x-history", "-dependents", "a-locks", "old-queues", "work:jobs", "a:held",
		"sent:run", "config", "eu:ql:", "x:open", "\x01list", "\xff\n",
	} {
		f.Add(name, "60")
	}
	f.Fuzz(func(t *testing.T, name, number string) {
		if !regexp.MustCompile(`^-?[0-9]{1,9}(\.[0-9]{1,9})?$`).MatchString(number) {
			number = "-1.5"
		}
		for _, kind := range keys.Kinds() {
			names := kind.Names()
			for i := range names {
				names[i] = number
			}
			if last := len(names) - 1; last >= 0 && !slices.Contains([]string{"day", "minute"}, kind.Names()[last]) {
				names[last] = name
			}
			key := kind.Key(names...)
			found, ok := keys.Of(key, kind.Type)
			require.True(t, ok, key)
			require.Equal(t, kind.Pattern, found.Pattern, key)
			require.True(t, slices.Equal(names, namesOf(found)), "%q: %q", key, namesOf(found))
			_, isInner := keys.Inner(key)
			require.False(t, isInner, key)
		}
		for _, typ := range []string{"", keys.String, keys.Hash, keys.List, keys.Set, keys.ZSet} {
			if found, ok := keys.Of(name, typ); ok {
				require.Equal(t, name, found.Key(namesOf(found)...))
			}
		}
	})
}

func TestTheTypeDecidesWhatAKeyIs(t *testing.T) {
	for _, test := range []struct{ key, typ, pattern, jid string }{
		{"j:a-history", keys.List, "j:<jid>-history", "a"},
		{"j:a-history", keys.Hash, "j:<jid>", "a-history"},
		{"j:a-history", "", "j:<jid>-history", "a"},
		{"j:a-history", keys.ZSet, "j:<jid>-history", "a"},
		{"j:a-history-history", keys.List, "j:<jid>-history", "a-history"},
		{"j:a-dependents", keys.Set, "j:<jid>-dependents", "a"},
		{"j:a-dependents-dependencies", keys.Set, "j:<jid>-dependencies", "a-dependents"},
		{"r:a-history", keys.Hash, "r:<jid>", "a-history"},
		{"q:a-locks-work", keys.ZSet, "q:<queue>-work", ""},
		{"x:rest:a", keys.Set, "x:rest:<jid>", "a"},
		{"x:history:a", keys.String, "x:history:<queue>", ""},
		{"x:rates:60", keys.Hash, "x:rates:<minute>", ""},
		{"x:rates:sent:60", keys.String, "x:rates:sent:<run>", ""},
	} {
		found, ok := keys.Of(test.key, test.typ)
		require.True(t, ok, test.key)
		require.Equal(t, test.pattern, found.Pattern, test.key)
		require.Equal(t, test.jid, found.Name("jid"), test.key)
	}
	for _, key := range []string{"", "stream", "q:mail", "s:odd:60:mail", "s:wait:day:mail", "x:odd", "eu:queues"} {
		_, ok := keys.Of(key, "")
		require.False(t, ok, key)
	}
}

func TestKeysOfAnInnerNamespaceAreTold(t *testing.T) {
	for key, want := range map[string]string{
		"eu:queues": "eu:", "eu:j:a-history": "eu:", "eu:q:mail-work": "eu:", "eu:x:limits": "eu:",
		"eu:t:old-queues": "eu:", "2:config": "2:", "eu:west:tags": "eu:west:",
		"stream": "", "": "", "t:old-queues": "", "q:eu:queues-work": "", "x:odd": "", "x:eu:queues": "",
	} {
		inner, ok := keys.Inner(key)
		require.Equal(t, want, inner, key)
		require.Equal(t, want != "", ok, key)
	}
}

func TestAKeyIsReadInEachPossibleWay(t *testing.T) {
	var found []string
	for namespace, key := range keys.Readings("ql:x:idle:t:old-queues", keys.ZSet) {
		found = append(found, namespace+" "+key.Pattern)
	}
	require.Equal(t, []string{
		"ql: x:idle:<queue>", "ql:x:idle: t:<tag>", "ql:x:idle:t:old- queues",
	}, found)
}

// Scripts add these texts to the prefix for channels, for a key that never exists, and for keys
// that other expressions complete.
var noKeys = regexp.MustCompile(`^(log|x:wake:<>|x:listen|x:none|<>|q:<>-<>|s:<>:<>:<>|x:limit:<>:<>)$`)

var (
	operand      = regexp.MustCompile(`'[^']*'|\w[\w.]*(?:\((?:[^()]|\([^()]*\))*\))?(?:\[\w+\])?`)
	concatenated = regexp.MustCompile(`\bprefix((?: \.\. (?:` + operand.String() + `))+)`)
	partOfQueue  = regexp.MustCompile(`queue_key\([^')\n]*'(\w+)'\)`)
	partOfLimit  = regexp.MustCompile(`limit_key\([^')\n]*'(\w+)'\)`)
	suffixOfJob  = regexp.MustCompile(`\bkey(?:\([^)\n]*\))? \.\. '(-\w+)'`)
)

// keysIn returns the keys named in Lua code, each name as <>.
func keysIn(code string) (found []string) {
	for _, m := range concatenated.FindAllStringSubmatch(code, -1) {
		key := ""
		for _, part := range operand.FindAllString(m[1], -1) {
			if text, isText := strings.CutPrefix(part, "'"); isText {
				key += strings.TrimSuffix(text, "'")
			} else {
				key += "<>"
			}
		}
		found = append(found, key)
	}
	for pattern, around := range map[*regexp.Regexp]string{
		partOfQueue: "q:<>-%", partOfLimit: "x:limit:<>:%", suffixOfJob: "j:<>%",
	} {
		for _, m := range pattern.FindAllStringSubmatch(code, -1) {
			found = append(found, strings.Replace(around, "%", m[1], 1))
		}
	}
	return found
}

// Each key in a script is of a known kind, and scripts name keys of each kind, unless others write
// them.
func TestAllKeysOfTheScriptsAreKnown(t *testing.T) {
	sources, code := os.DirFS("../../lua"), map[string]string{}
	for _, pattern := range []string{"prologue.lua", "lib/*.lua", "commands/*.lua"} {
		files, err := fs.Glob(sources, pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := fs.ReadFile(sources, file)
			require.NoError(t, err)
			code[file] = string(text)
		}
	}
	named := map[string]bool{}
	for file, text := range code {
		for _, key := range keysIn(text) {
			if noKeys.MatchString(key) {
				continue
			}
			found, ok := keys.Of(strings.ReplaceAll(key, "<>", "60"), "")
			require.True(t, ok, "%s: %s is a key of no kind", file, key)
			named[found.Pattern] = true
		}
	}
	elsewhere := regexp.MustCompile(`^(q:<queue>-completed|s:.*|x:relay|x:outbox|x:lmstfy:.*)$`)
	for _, kind := range keys.Kinds() {
		if !elsewhere.MatchString(kind.Pattern) {
			require.True(t, named[kind.Pattern], "no script names a key %s", kind.Pattern)
		}
	}
}

func TestEachKindHasAnExample(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range keys.Kinds() {
		found, ok := keys.Of(kind.Example(), kind.Type)
		require.True(t, ok, kind.Example())
		require.Equal(t, kind.Pattern, found.Pattern)
		require.False(t, seen[kind.Pattern], "%s is there twice", kind.Pattern)
		seen[kind.Pattern] = true
		require.Panics(t, func() { kind.Key(append(kind.Names(), "more")...) })
	}
}
