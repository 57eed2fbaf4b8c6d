package jobopts

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Check returns an error if an option is invalid, or can't be combined with another.
func (o *Options) Check() error {
	for _, row := range checked {
		if err := row.check(o); err != nil {
			return err
		}
	}
	return nil
}

// checked holds the rows with a check.
var checked = rowsWith(func(r *Row) bool { return r.check != nil })

// The ranges of options.
const (
	minPriority     = math.MinInt32
	maxHeaders      = 8 << 10 // bytes of all keys and values
	maxTenant       = 512     // bytes
	minWeight       = 0.01
	maxWeight       = 100
	maxFairPriority = 10000
	maxLimits       = 8
	maxLimitName    = 200 // bytes
	minLockTime     = time.Millisecond
	maxLockTime     = 24 * time.Hour
	minLifetime     = time.Millisecond
	lastYear        = 9999
)

// The conditions of puts, and their names in package qless.
const (
	ifAbsent     = "absent"
	ifFinished   = "finished"
	ifNotRunning = "not_running"
)

var ifNames = map[string]string{
	ifAbsent: "IfAbsent", ifFinished: "IfFinished", ifNotRunning: "IfNotRunning",
}

// CheckName returns an error if the name of a queue, a jid, a klass, a tag or the like is empty, or
// would not survive the JSON of replies.
func CheckName(what, name string) error {
	if name == "" {
		return fmt.Errorf("the %s is empty", what)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("the %s %q is not UTF-8", what, name)
	}
	return nil
}

func checkNames(what string, names []string) error {
	for _, name := range names {
		if err := CheckName(what, name); err != nil {
			return err
		}
	}
	return nil
}

var errEmptyJID = errors.New("the jid is empty")

func checkOwnJID(o *Options) error {
	if o.emptyJID {
		return errEmptyJID
	}
	return nil
}

// CheckJID returns an error if a job with this jid would have the key of another job's list.
func CheckJID(jid string) error {
	if jid == OpenBatch {
		return fmt.Errorf("no job can have the jid %s", jid)
	}
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		if strings.HasSuffix(jid, suffix) {
			return fmt.Errorf("the jid %q ends in %s: no job can have it", jid, suffix)
		}
	}
	return nil
}

// OpenBatch is a dependency of an open batch's callback. No job has this jid.
const OpenBatch = "x:open"

// maxNumber is the maximum number that replies preserve exactly.
const maxNumber = math.MaxInt32

// CheckNumber returns an error unless replies preserve a number exactly.
func CheckNumber(what string, n, least int) error {
	if n < least || n > maxNumber {
		return fmt.Errorf("the %s %d is not from %d to %d", what, n, least, maxNumber)
	}
	return nil
}

func checkNumber(what string, n *int, least int) error {
	if n == nil {
		return nil
	}
	return CheckNumber(what, *n, least)
}

// IfName returns the name of a put's condition in Go.
func IfName(condition string) string { return ifNames[condition] }

func checkIf(o *Options) error {
	for i, condition := range o.If {
		if ifNames[condition] == "" {
			return fmt.Errorf("the condition If(%q) is unknown", condition)
		}
		if first := o.If[0]; i > 0 && condition != first {
			return fmt.Errorf("%s and %s can't be used together", ifNames[first], ifNames[condition])
		}
	}
	return nil
}

func checkDelay(o *Options) error {
	if o.Delay != nil && *o.Delay < 0 {
		return fmt.Errorf("the delay %v is negative", *o.Delay)
	}
	return nil
}

func checkAt(o *Options) error {
	switch {
	case o.At == nil:
		return nil
	case o.At.IsZero() || o.At.Year() > lastYear:
		return fmt.Errorf("At(%v) is not a time", *o.At)
	case o.Delay != nil:
		return errors.New("the options Delay and At can't be used together")
	}
	return nil
}

func checkDependsOn(o *Options) error {
	for _, jid := range o.DependsOn {
		if err := CheckName("jid of a dependency", jid); err != nil {
			return err
		}
		if err := CheckJID(jid); err != nil {
			return err
		}
	}
	return nil
}

func checkMustExist(o *Options) error {
	if o.MustExist && len(o.DependsOn) == 0 {
		return errors.New("DependsOn.MustExist has no jobs")
	}
	return nil
}

func checkOnFailure(o *Options) error {
	if o.OnFailure == nil {
		return nil
	}
	switch o.OnFailure.Do {
	case "wait", "run", "fail":
		return nil
	}
	return fmt.Errorf("the OnFailure %q is unknown", o.OnFailure.Do)
}

func checkOnLost(o *Options) error {
	switch o.OnLost {
	case "", "last", "place":
		return nil
	}
	return fmt.Errorf("OnLost(%q) is not OnLostFirst, OnLostLast or OnLostInPlace", o.OnLost)
}

func checkHeaders(o *Options) error { return CheckHeaders(o.Headers) }

// CheckHeaders returns an error for invalid headers.
func CheckHeaders(headers map[string]string) error {
	if len(headers) == 0 {
		return nil
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		value := headers[key]
		if err := CheckName("key of a header", key); err != nil {
			return err
		}
		if !utf8.ValidString(value) {
			return fmt.Errorf("the value of the header %q is not UTF-8", key)
		}
		size += len(key) + len(value)
	}
	if size > maxHeaders {
		return fmt.Errorf("the headers have %d bytes, which is more than %d", size, maxHeaders)
	}
	return nil
}

func checkFair(o *Options) error {
	if o.Fair == nil {
		return nil
	}
	tenant, weight := string(o.Fair.Tenant), float64(o.Fair.Weight)
	if err := CheckName("tenant of Fair", tenant); err != nil {
		return err
	}
	switch {
	case len(tenant) > maxTenant:
		return fmt.Errorf("the tenant of Fair has %d bytes, which is more than %d",
			len(tenant), maxTenant)
	case !(weight >= minWeight && weight <= maxWeight):
		return fmt.Errorf("the Weight %v of Fair is not from %v to %v", weight, minWeight, maxWeight)
	case o.Priority != nil && (*o.Priority < -maxFairPriority || *o.Priority > maxFairPriority):
		return fmt.Errorf("Fair can't be used with the Priority %d: it is not from %d to %d",
			*o.Priority, -maxFairPriority, maxFairPriority)
	}
	return nil
}

func checkLimits(o *Options) error {
	if o.Limits == nil {
		return nil
	}
	if n := len(o.Limits); n < 1 || n > maxLimits {
		return fmt.Errorf("a job has 1 to %d Limits, not %d", maxLimits, n)
	}
	for i, name := range o.Limits {
		if err := CheckLimit(string(name)); err != nil {
			return err
		}
		if slices.Contains(o.Limits[:i], name) {
			return fmt.Errorf("the Limits have %q twice", name)
		}
	}
	return nil
}

// CheckLimit returns an error for an invalid name of a limit.
func CheckLimit(name string) error {
	if err := CheckName("name of a limit", name); err != nil {
		return err
	}
	if len(name) > maxLimitName {
		return fmt.Errorf("the name of a limit has %d bytes, which is more than %d",
			len(name), maxLimitName)
	}
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if strings.ContainsFunc(name, odd) {
		return fmt.Errorf("the name of a limit, %q, has a space or a control character", name)
	}
	return nil
}

func checkLockTime(o *Options) error {
	if o.LockTime == nil {
		return nil
	}
	return CheckLockTime(time.Duration(*o.LockTime))
}

// CheckLockTime returns an error for an invalid lock time.
func CheckLockTime(d time.Duration) error {
	if d < minLockTime || d > maxLockTime {
		return fmt.Errorf("the lock time %v is not from %v to %v", d, minLockTime, maxLockTime)
	}
	return nil
}

func checkSpan(name string, s *Span, least time.Duration) error {
	if s != nil && time.Duration(*s) < least {
		return fmt.Errorf("%s(%v) is less than %v", name, time.Duration(*s), least)
	}
	return nil
}

func checkKeepFailedFor(o *Options) error {
	if o.KeepFailedFor != nil && *o.KeepFailedFor == Forever {
		return nil
	}
	return checkSpan("KeepFailedFor", o.KeepFailedFor, 0)
}

// checkDeadline returns an error if a deadline is too short to run the job.
func (o *Options) checkDeadline(name string, d *Deadline) error {
	if d == nil || d.IsTime {
		return nil
	}
	after := d.Seconds.Duration()
	switch {
	case after < minLifetime:
		return fmt.Errorf("%s(%v) is less than %v", name, after, minLifetime)
	case o.Delay != nil && *o.Delay > 0 && after <= *o.Delay:
		return fmt.Errorf("%s(%v) is over before the Delay of %v", name, after, *o.Delay)
	}
	return nil
}
