package doctor

import (
	"strings"

	"github.com/qless/qless-go/internal/keys"
)

// newFinding returns a finding about a key, without the prefix, and perhaps a member.
func newFinding(prefix string, code Code, key, member, details string, fixable bool) Reason {
	switch code {
	case CodeDuplicate:
		member = strings.TrimPrefix(member, twice)
	case CodeNoExpiry, CodeLost:
		member = ""
	}
	f := Reason{
		Code: code, Certain: true, Member: member, JID: code.jidIn(key, member), Fixable: fixable,
		details: details,
	}
	if key != "" {
		f.Key = prefix + key
	}
	if code == CodeLost {
		f.Queue = queueOfKey(prefix, details)
	}
	return f.explained()
}

// item returns the item to check again for this finding.
func (f *Reason) item(prefix string) item {
	i := item{strings.TrimPrefix(f.Key, prefix), f.Member}
	switch f.Code {
	case CodeDuplicate:
		i.member = twice + i.member
	case CodeNoExpiry:
		i.member = classOf(i.key, "").seconds
	}
	return i
}

// keyType returns the type of the keys of findings of a kind, as far as it tells a job from its
// lists.
func (c Code) keyType() string {
	switch c {
	case CodeOrphan:
		return keys.List
	case CodeDependencyOneSided, CodeDependencyOver, CodeDependencyLeft:
		return keys.Set
	case CodeWrongType:
		return ""
	}
	return keys.Hash
}

// jidIn returns the jid that a key, without the prefix, or its member names, or the empty string.
func (c Code) jidIn(key, member string) string {
	found, _ := keys.Of(key, c.keyType())
	jid := found.Name("jid")
	if jid == "" && found.Kind != nil && found.Members == "jid" {
		return member
	}
	return jid
}
