package doctor

import (
	"strconv"

	"github.com/qless/qless-go/internal/keys"
)

// A checking holds the checks of the keys of one kind.
type checking struct {
	members check // of each member, if members are checked
	itself  check // of the key itself, if it is checked
}

// checks are the checks of keys, by their pattern. Keys that must expire are checked, too.
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

// A class describes a key: what it is, and the checks that examine it.
type class struct {
	keys.Key
	checking
	seconds string // the longest that the key may last; empty for ever
}

// classOf returns the class of a key, which is given without the prefix, with its type if that is
// known. The class of an unknown key has no kind.
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

// Members of items that are not members of the key.
const (
	inGroup = "group" // of a job: check its failure group
	twice   = "2x"    // before a jid: check that the jid occurs only once
)

// own returns the item for the key itself.
func (c class) own(key string) item { return item{key, c.seconds} }

// checkOf returns the check for the item of a finding of a code.
func checkOf(i item, code ReasonCode) check {
	c := classOf(i.key, code.keyType())
	if c.members == checkPlace && (code == ReasonGhost || code == ReasonMisplaced) {
		return checkPlace // even for a member that is empty
	}
	if i.member == "" || i.member == c.seconds {
		return c.itself
	}
	return c.members
}
