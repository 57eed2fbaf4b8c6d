package workqueue

import (
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// An Item is something to be worked on. Its id may be any string, its data any bytes.
type Item struct {
	ID   string `json:"id"`
	Data []byte `json:"data"`
}

// NewItem returns an item with some data and a random id, of 32 hexadecimal digits.
func NewItem(data []byte) Item {
	return Item{ID: newID(), Data: data}
}

// NewItemJSON returns an item whose data is a value in JSON, with a random id. It is
// [ErrInvalid] when the value can't be encoded.
func NewItemJSON(value any) (Item, error) {
	item := NewItem(nil)
	var err error
	if item.Data, err = json.Marshal(value); err != nil {
		return Item{}, &Error{Op: "encode", Code: CodeInvalid, Message: err.Error(), Err: err}
	}
	return item, nil
}

// ItemJSON decodes the data of an item, which is JSON. It is [ErrInvalid] when the data is
// none, or does not fit the type.
func ItemJSON[T any](item *Item) (T, error) {
	var value T
	if err := json.Unmarshal(item.Data, &value); err != nil {
		return value, &Error{Op: "decode", Code: CodeInvalid, ID: item.ID, Message: err.Error(), Err: err}
	}
	return value, nil
}

// newID returns a random id, which serves for items and sessions.
func newID() string {
	return strings.ReplaceAll(uuid.NewString(), "-", "")
}
