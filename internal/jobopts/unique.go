package jobopts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A Unique is a unique key as given in a put.
type Unique struct {
	Parts        []any
	Data         bool   // the key is made from the klass and the data
	Key          string // the key itself, takes precedence over both
	UntilStarted bool
	For          *time.Duration
	Replace      bool
	KeepDue      bool
	Within       *time.Duration
}

// maxUniqueKey is the maximum size of a unique key in bytes.
const maxUniqueKey = 512

// unique returns the unique key of the options, for changes.
func (o *Options) unique() *Unique {
	if o.Unique == nil {
		o.Unique = &Unique{}
	}
	return o.Unique
}

// UnmarshalJSON reads whether the key is made from the data, or the key itself.
func (u *Unique) UnmarshalJSON(raw []byte) error {
	if !strings.HasPrefix(string(raw), `"`+dataPrefix) {
		return json.Unmarshal(raw, &u.Data)
	}
	u.Data = true
	return json.Unmarshal(raw, &u.Key)
}

// A Claim is the unique key stored in a job: see lua/lib/unique.lua.
type Claim struct {
	Key     string  `json:"k"`
	Mode    string  `json:"m,omitempty"`
	Seconds float64 `json:"d,omitempty"`
}

// The modes of a claim.
const (
	UntilStarted = "start"
	For          = "for"
)

// UnmarshalJSON reads the undamaged fields.
func (c *Claim) UnmarshalJSON(raw []byte) error {
	type plain Claim
	*c = Claim{}
	_ = json.Unmarshal(raw, (*plain)(c))
	return nil
}

// MakeClaim makes the claim of a job from its unique key.
func (o *Options) MakeClaim(klass, data string) error {
	u := o.Unique
	if u == nil {
		return nil
	}
	key := u.Key
	switch {
	case key != "":
	case u.Data:
		key = dataKey(klass, data)
	default:
		var err error
		if key, err = UniqueKey(u.Parts); err != nil {
			return err
		}
	}
	o.Claim = &Claim{Key: key}
	switch {
	case u.UntilStarted:
		o.Claim.Mode = UntilStarted
	case u.For != nil:
		o.Claim.Mode, o.Claim.Seconds = For, u.For.Seconds()
	}
	return nil
}

// UniqueKey returns the key made from parts.
func UniqueKey(parts []any) (string, error) {
	for i, part := range parts {
		if part == nil || part == "" {
			return "", fmt.Errorf("part %d of the unique key is empty", i)
		}
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("the unique key can't be JSON: %w", err)
	}
	return string(raw), checkUniqueKey(string(raw))
}

func checkUniqueKey(key string) error {
	if len(key) > maxUniqueKey {
		return fmt.Errorf("the unique key has %d bytes, which is more than %d", len(key), maxUniqueKey)
	}
	return nil
}

// dataPrefix begins keys made from data. Keys made from parts begin with a bracket.
const dataPrefix = "data:"

// dataKey returns the key of a job with a unique klass and data.
func dataKey(klass, data string) string {
	sum := sha256.Sum256([]byte(klass + "\x00" + data))
	return dataPrefix + hex.EncodeToString(sum[:])
}

func checkUnique(o *Options) error {
	u := o.Unique
	switch {
	case u == nil:
		return nil
	case u.KeepDue && !u.Replace:
		return errors.New("Unique.KeepDue needs Replace")
	case u.Within != nil && !u.Replace:
		return errors.New("Unique.Within needs Replace")
	case u.KeepDue && u.Within != nil:
		return errors.New("Unique.KeepDue and Within can't be used together")
	case u.Replace && u.For != nil:
		return errors.New("Unique.Replace and For can't be used together")
	case u.Within != nil && *u.Within < time.Millisecond:
		return fmt.Errorf("Unique.Within needs at least 1ms, not %v", *u.Within)
	case u.UntilStarted && u.For != nil:
		return errors.New("UntilStarted and For can't be used together")
	case u.For != nil && *u.For < time.Millisecond:
		return fmt.Errorf("Unique.For needs at least 1ms, not %v", *u.For)
	}
	if err := u.checkParts(); err != nil {
		return err
	}
	return checkReplace(o)
}

// checkParts returns an error unless there is one key.
func (u *Unique) checkParts() error {
	switch {
	case u.Data && len(u.Parts) > 0:
		return errors.New("a unique key has either parts or the data")
	case u.Key != "":
		return checkUniqueKey(u.Key)
	case u.Data:
		return nil
	case len(u.Parts) == 0:
		return errors.New("the unique key has no parts")
	}
	_, err := UniqueKey(u.Parts)
	return err
}

// checkReplace returns an error for an option that can't be combined with Replace.
func checkReplace(o *Options) error {
	other := ""
	switch u := o.Unique; {
	case !u.Replace:
		return nil
	case o.JID != "":
		other = "JID"
	case len(o.DependsOn) > 0:
		other = "DependsOn"
	case o.OnFailure != nil:
		other = "OnFailure"
	case len(o.If) > 0:
		other = ifNames[o.If[0]]
	case u.Within != nil && o.Delay != nil && *o.Delay > *u.Within:
		return fmt.Errorf("the delay %v is longer than Unique.Within(%v)", *o.Delay, *u.Within)
	default:
		return nil
	}
	return fmt.Errorf("%s and Unique.Replace can't be used together", other)
}

// replaceArgs returns the pairs of arguments for a put that replaces the holder of the key.
func (u *Unique) replaceArgs() []any {
	switch {
	case u == nil || !u.Replace:
		return nil
	case u.KeepDue:
		return []any{"replace", "due"}
	case u.Within != nil:
		return []any{"replace", "delay", "within", wire.FormatSeconds(*u.Within)}
	}
	return []any{"replace", "delay"}
}
