package doctor

import "strings"

// A class describes the keys of one kind, such as the hashes of jobs: their type, and the checks
// that examine them.
type class struct {
	kind    string // the type; empty for unknown keys
	check   check  // of each member, if members are checked
	itself  check  // of the key itself, if it is checked
	seconds string // the longest that the key may last; empty for ever
}

// whole are the keys whose names are fixed.
var whole = map[string]class{
	"completed":                   {kind: typeZSet, check: checkPlace},
	"config":                      {kind: typeHash},
	"failed-jobs-list":            {kind: typeZSet, check: checkNotes},
	"failures":                    {kind: typeSet, check: checkNotes},
	"paused_queues":               {kind: typeSet},
	"queues":                      {kind: typeZSet},
	"tags":                        {kind: typeZSet, check: checkTags},
	"tracked":                     {kind: typeZSet, check: checkNotes},
	"workers":                     {kind: typeZSet},
	"x:empty":                     {kind: typeHash, seconds: "1"},
	"x:filled":                    {kind: typeSet, seconds: "1"},
	"x:idle":                      {kind: typeSet, check: checkWorkers},
	"x:limits":                    {kind: typeHash, check: checkLimits},
	"x:queues":                    {kind: typeZSet},
	"x:refused":                   {kind: typeZSet, seconds: "86400"},
	"x:relay":                     {kind: typeString, seconds: "2"},
	"x:rest":                      {kind: typeZSet, check: checkNotes},
	"x:schedule-ids":              {kind: typeZSet, check: checkNotes},
	"x:schedules":                 {kind: typeHash},
	"x:sweep":                     {kind: typeHash},
	"x:swept":                     {kind: typeString, seconds: "300"},
	"x:topics":                    {kind: typeSet},
	"x:until":                     {kind: typeZSet, check: checkNotes},
	"j:x:open" + dependentsSuffix: {kind: typeSet, check: checkDepends},
}

// A pattern matches keys by their beginning and end.
type pattern struct {
	first, last string
	class
}

// patterns are the other keys. The first match counts.
var patterns = []pattern{
	{"j:", historySuffix, class{kind: typeList, itself: checkNotes}},
	{"j:", dependentsSuffix, class{kind: typeSet, check: checkDepends}},
	{"j:", dependenciesSuffix, class{kind: typeSet, check: checkDepends}},
	{"j:", "", class{kind: typeHash, itself: checkJob}},
	{"r:", "", class{kind: typeHash, itself: checkNotes}},
	{"q:", "-work", class{kind: typeZSet, check: checkPlace}},
	{"q:", "-locks", class{kind: typeZSet, check: checkPlace, itself: checkNotes}},
	{"q:", "-scheduled", class{kind: typeZSet, check: checkPlace, itself: checkNotes}},
	{"q:", "-depends", class{kind: typeZSet, check: checkPlace}},
	{"q:", "-recur", class{kind: typeZSet, check: checkPlace, itself: checkNotes}},
	{"q:", "-completed", class{kind: typeZSet}}, // of the script of qless-php
	{"w:", ":jobs", class{kind: typeZSet, check: checkWorkers}},
	{"f:", "", class{kind: typeList, check: checkPlace, itself: checkNotes}},
	{"t:", "", class{kind: typeZSet, check: checkTags, itself: checkTags}},
	{"s:", "", class{kind: typeHash, check: checkFigures}},
	{"topics", "", class{kind: typeHash}},
	{"x:before:", "", class{kind: typeString, seconds: "604800"}},
	{"x:due:", "", class{kind: typeString, itself: checkWorkers}},
	{"x:fair:", "", class{kind: typeZSet, check: checkFigures, itself: checkFigures}},
	{"x:follow:", "", class{kind: typeHash, seconds: "180"}},
	{"x:idle:", "", class{kind: typeZSet, check: checkWorkers}},
	{"x:list:", "", class{kind: typeZSet, check: checkWorkers}},
	{"x:listed:", "", class{kind: typeHash}},
	{"x:looked:", "", class{kind: typeString, seconds: "1"}},
	{"x:limit:", ":held", class{kind: typeZSet, check: checkLimits}},
	{"x:limit:", ":starts", class{kind: typeList}},
	{"x:limit:", ":wait", class{kind: typeZSet, check: checkLimits}},
	{"x:rate:", "", class{kind: typeList}},
	{"x:rates:sent:", "", class{kind: typeString, seconds: "1800"}},
	{"x:rates:", "", class{kind: typeHash, check: checkFigures, seconds: "259200"}},
	{"x:rest:", "", class{kind: typeSet}},
	{"x:schedule:", "", class{kind: typeHash}},
	{"x:stats:", "", class{kind: typeHash, check: checkFigures}},
	{"x:unique:", "", class{kind: typeString, itself: checkNotes}},
	{"x:worker:", "", class{kind: typeString, seconds: "150"}},
}

// classOf returns the class of a key, which is given without the prefix.
func classOf(key string) class {
	c, ok := whole[key]
	if !ok {
		c = patternOf(key)
	}
	if c.seconds != "" {
		c.itself = checkNotes
	}
	return c
}

// patternOf returns the class of the first pattern that a key matches.
func patternOf(key string) class {
	for _, p := range patterns {
		long := len(key) >= len(p.first)+len(p.last)
		if long && strings.HasPrefix(key, p.first) && strings.HasSuffix(key, p.last) {
			return p.class
		}
	}
	return class{}
}

// The suffixes of the keys of a job's lists.
const (
	historySuffix      = "-history"
	dependentsSuffix   = "-dependents"
	dependenciesSuffix = "-dependencies"
)

// Members of items that are not members of the key.
const (
	inGroup = "group" // of a job: check its failure group
	twice   = "2x"    // before a jid: check that the jid occurs only once
)

// The types of keys.
const (
	typeString = "string"
	typeHash   = "hash"
	typeList   = "list"
	typeSet    = "set"
	typeZSet   = "zset"
)

// own returns the item for the key itself.
func (c class) own(key string) item { return item{key, c.seconds} }

// checkOf returns the check for an item.
func checkOf(i item) check {
	c := classOf(i.key)
	if i.member == "" || i.member == c.seconds {
		return c.itself
	}
	return c.check
}
