package doctor

import (
	"strings"

	"github.com/qless/qless-go/internal/keys"
)

// newFinding returns a finding about a key, without the prefix, and perhaps a member.
func newFinding(prefix string, code ReasonCode, key, member, details string, fixable bool) Reason {
	switch code {
	case ReasonDuplicate:
		member = strings.TrimPrefix(member, twice)
	case ReasonNoExpiry, ReasonLost:
		member = ""
	}
	f := Reason{
		Code: code, Certain: true, Member: member, JID: code.jidIn(key, member), Fixable: fixable,
		details: details,
	}
	if key != "" {
		f.Key = prefix + key
	}
	if g := kindOf(code).Gravity; g == Urgent || g == Attention {
		f.Gravity = Leftover // a worker or a sweep ends what keeps jobs waiting
	}
	if code == ReasonLost {
		f.Queue = queueOfKey(prefix, details)
	}
	return f.explained()
}

// item returns the item to check again for this finding.
func (f *Reason) item(prefix string) item {
	i := item{strings.TrimPrefix(f.Key, prefix), f.Member}
	switch f.Code {
	case ReasonDuplicate:
		i.member = twice + i.member
	case ReasonNoExpiry:
		i.member = classOf(i.key, "").seconds
	}
	return i
}

// keyType returns the type of the keys of findings of a kind, as far as it tells a job from its
// lists.
func (c ReasonCode) keyType() string {
	switch c {
	case ReasonOrphan:
		return keys.List
	case ReasonDependencyOneSided, ReasonDependencyOver, ReasonDependencyLeft:
		return keys.Set
	case ReasonDamaged:
		return ""
	}
	return keys.Hash
}

// jidIn returns the jid that a key, without the prefix, or its member names, or the empty string.
func (c ReasonCode) jidIn(key, member string) string {
	found, _ := keys.Of(key, c.keyType())
	jid := found.Name("jid")
	if jid == "" && found.Kind != nil && found.Members == "jid" {
		return member
	}
	return jid
}
