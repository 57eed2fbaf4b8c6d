package workqueue

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// An Item is a unit of work. The id may be any string and the data any bytes.
type Item struct {
	ID   string `json:"id"`
	Data []byte `json:"data"`

	lease string // the value of the lease's key; empty except for items from Lease
}

// NewItem returns an item with the data and a random id of 32 hexadecimal digits.
func NewItem(data []byte) Item {
	return Item{ID: newID(), Data: data}
}

// NewItemJSON returns an item with a random id and value encoded as JSON, or [ErrInvalid] if the
// encoding fails.
func NewItemJSON(value any) (Item, error) {
	item := NewItem(nil)
	var err error
	if item.Data, err = json.Marshal(value); err != nil {
		return Item{}, &Error{Op: "encode", Code: CodeInvalid, Message: err.Error(), Err: err}
	}
	return item, nil
}

// ItemJSON decodes the data of an item as JSON. It returns [ErrInvalid] if the data is not JSON or
// does not fit T.
func ItemJSON[T any](item *Item) (T, error) {
	var value T
	if err := json.Unmarshal(item.Data, &value); err != nil {
		return value, &Error{Op: "decode", Code: CodeInvalid, ID: item.ID, Message: err.Error(), Err: err}
	}
	return value, nil
}

// newID returns a random id for an item or a session.
func newID() string {
	return strings.ReplaceAll(uuid.NewString(), "-", "")
}
