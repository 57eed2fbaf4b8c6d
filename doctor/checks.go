package doctor

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/wire"
)

//go:embed doctor.lua
var scriptText string

// script is the script in doctor.lua, generated from lua and from the library shared with qless.
var script = redis.NewScript(scriptText)

// A check is a command of the doctor's script to check and repair items.
type check string

// The commands in lua/commands.
const (
	checkJob     check = "job"
	checkPlace   check = "place"
	checkDepends check = "depends"
	checkTags    check = "tags"
	checkWorkers check = "workers"
	checkLimits  check = "limits"
	checkNotes   check = "notes"
	checkFigures check = "figures"
)

// An item is the subject of a check: a key without the prefix and, for a set or list, a member.
type item struct{ key, member string }

// run checks some items and returns the problems. With a code, run repairs the problems of that
// kind and returns the repaired problems.
func (c check) run(ctx context.Context, e *exam, code ReasonCode, items []item) ([]Reason, error) {
	now := ""
	if e.Clock != nil {
		given, err := e.now(ctx)
		if err != nil {
			return nil, err
		}
		now = wire.FormatTime(given)
	}
	args := make([]any, 0, 3+2*len(items))
	args = append(args, string(c), now, string(code))
	for _, i := range items {
		args = append(args, i.key, i.member)
	}
	rows, err := script.Run(ctx, e.rdb, []string{e.Namespace}, args...).Slice()
	if err != nil {
		return nil, err
	}
	found := make([]Reason, 0, len(rows))
	for _, row := range rows {
		fields, ok := row.([]any)
		if !ok || len(fields) != 5 {
			message := fmt.Sprintf("unexpected reply: %.100v", row)
			return nil, &qless.Error{Op: op, Code: qless.ErrServer, Message: message}
		}
		texts := wire.AsStrings(fields)
		code, isFixable := ReasonCode(texts[0]), texts[4] == "1"
		found = append(found,
			newFinding(e.Namespace, code, texts[1], texts[2], texts[3], isFixable))
	}
	return found, nil
}

// A checking holds the checks of the keys of one kind.
type checking struct {
	members check // of each member, if members are checked
	itself  check // of the key itself, if it is checked
}

// checks maps the patterns of keys to their checks. Keys that must expire are checked, too.
var checks = map[string]checking{
	"completed":             {members: checkPlace},
	"failed-jobs-list":      {members: checkNotes},
	"failures":              {members: checkNotes},
	"tags":                  {members: checkTags},
	"tracked":               {members: checkNotes},
	"j:<jid>-history":       {itself: checkNotes},
	"j:<jid>-dependents":    {members: checkDepends},
	"j:<jid>-dependencies":  {members: checkDepends},
	"j:<jid>":               {itself: checkJob},
	"r:<jid>":               {itself: checkNotes},
	"q:<queue>-work":        {members: checkPlace, itself: checkNotes},
	"q:<queue>-locks":       {members: checkPlace, itself: checkNotes},
	"q:<queue>-scheduled":   {members: checkPlace, itself: checkNotes},
	"q:<queue>-depends":     {members: checkPlace, itself: checkNotes},
	"q:<queue>-recur":       {members: checkPlace, itself: checkNotes},
	"w:<worker>:jobs":       {members: checkWorkers},
	"f:<group>":             {members: checkPlace, itself: checkNotes},
	"t:<tag>":               {members: checkTags, itself: checkTags},
	"s:stats:<day>:<queue>": {members: checkFigures},
	"s:wait:<day>:<queue>":  {members: checkFigures},
	"s:run:<day>:<queue>":   {members: checkFigures},

	"x:due:<queue>":             {itself: checkWorkers},
	"x:fair:<priority>:<queue>": {members: checkFigures, itself: checkFigures},
	"x:idle":                    {members: checkWorkers},
	"x:idle:<queue>":            {members: checkWorkers},
	"x:limit:<limit>:held":      {members: checkLimits},
	"x:limit:<limit>:wait":      {members: checkLimits},
	"x:limits":                  {members: checkLimits},
	"x:list:<list>":             {members: checkWorkers},
	"x:rates:<minute>":          {members: checkFigures},
	"x:rest":                    {members: checkNotes},
	"x:schedule-ids":            {members: checkNotes},
	"x:stats:<day>:<queue>":     {members: checkFigures},
	"x:unique:<key>":            {itself: checkNotes},
	"x:until":                   {members: checkNotes},
}

// A class describes a key and the checks that examine it.
type class struct {
	keys.Key
	checking
	seconds string // the longest time the key may last; empty if unlimited
}

// classOf returns the class of a key, given without the prefix, and with its type if known. The
// class of an unknown key has no kind.
func classOf(key, typ string) class {
	found, known := keys.Of(key, typ)
	if !known {
		return class{}
	}
	c := class{Key: found, checking: checks[found.Pattern]}
	if found.Lasts > 0 {
		c.itself, c.seconds = checkNotes, strconv.Itoa(int(found.Lasts.Seconds()))
	}
	return c
}

// Pseudo-members of items, not found in the key.
const (
	inGroup = "group" // of a job: check its failure group
	twice   = "2x"    // before a jid: check for a second occurrence
)

// own returns the item for the key itself.
func (c class) own(key string) item { return item{key, c.seconds} }

// checkOf returns the check of an item for findings with a code.
func checkOf(i item, code ReasonCode) check {
	c := classOf(i.key, code.keyType())
	if c.members == checkPlace && (code == ReasonGhost || code == ReasonMisplaced) {
		return checkPlace // even for an empty member
	}
	if i.member == "" || i.member == c.seconds {
		return c.itself
	}
	return c.members
}

// newFinding returns a finding about a key without the prefix and, optionally, a member.
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
		f.Gravity = Leftover // a worker or a sweep will free the waiting jobs
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

// keyType returns the type of key for findings of a kind, if needed to tell a job from its lists.
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

// jidIn returns the jid in a key without the prefix or in its member, or the empty string.
func (c ReasonCode) jidIn(key, member string) string {
	found, _ := keys.Of(key, c.keyType())
	jid := found.Name("jid")
	if jid == "" && found.Kind != nil && found.Members == "jid" {
		return member
	}
	return jid
}
