package qless

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/wire"
)

// A Codec changes the form in which a client stores the data and the results of jobs, to encrypt or
// compress them, or to keep large ones elsewhere.
//
// The result of Encode is stored in a JSON envelope that names the codec and the key. Clients
// without the codec can move, fail and cancel such a job, but not read its data. The klass, tags,
// headers, failure messages and entries of [Job.Log] are not encoded.
//
// A codec must be safe for concurrent use. Errors appear in messages and logs, so they should not
// contain secrets.
type Codec interface {
	// Name returns the codec's name in envelopes. It must not contain a colon, and must stay the same
	// as long as there are jobs encoded with the codec.
	Name() string

	// Encode returns the encoded form of data, which is JSON, for a job of the klass, and the id of
	// the key that Decode needs, if there are several. If encoded is nil, the data is stored
	// unchanged.
	Encode(klass string, data []byte) (encoded []byte, key string, err error)

	// Decode returns the original data.
	Decode(key string, encoded []byte) (data []byte, err error)
}

// errUnknownCodec: data is encoded by a codec unknown to the client.
var errUnknownCodec = errors.New("unknown codec")

// The limits of a job's data, in bytes.
const (
	defaultMaxData = 8 << 20
	noLimit        = -1
)

// checkCodecs returns an error unless the codecs have valid and distinct names.
func checkCodecs(codecs []Codec) error {
	names := map[string]bool{}
	for _, codec := range codecs {
		if codec == nil {
			return invalid("new", "", "OldCodecs has a nil codec")
		}
		name := codec.Name()
		if name == "" || strings.Contains(name, ":") || names[name] {
			return invalid("new", "",
				"the name %q of a codec is empty, has a colon, or is that of two", name)
		}
		names[name] = true
	}
	return nil
}

// checkSize returns an error if JSON is larger than MaxData.
func (c *Client) checkSize(op, jid, what, data string) error {
	if c.maxData == noLimit || len(data) <= c.maxData {
		return nil
	}
	return invalid(op, jid, "the %s has %d bytes of JSON, which is more than %d (MaxData)",
		what, len(data), c.maxData)
}

// encode returns the stored form of the data or the result of a job. An envelope that could not be
// decoded is stored unchanged, and so is text that is not JSON.
func (c *Client) encode(op, jid, klass, what, data string) (string, error) {
	if wire.OpenEnvelope(data) != nil {
		return data, nil
	}
	if err := c.checkSize(op, jid, what, data); err != nil {
		return "", err
	}
	if c.codec == nil || !wire.IsJSON([]byte(data)) {
		return data, nil
	}
	encoded, key, err := safeEncode(c.codec, klass, []byte(data))
	if err != nil {
		return "", &Error{Op: op, Code: ErrInvalid, JID: jid, Err: err,
			Message: fmt.Sprintf("the %s can't be encoded: %v", what, err)}
	}
	if encoded == nil {
		return data, nil
	}
	raw, err := json.Marshal(wire.Envelope{Codec: c.codec.Name() + ":" + key, Bytes: encoded})
	return string(raw), err // which is nil: the fields always marshal
}

// safeEncode encodes data. It is an error if the codec does not return.
func safeEncode(codec Codec, klass string, data []byte) (encoded []byte, key string, err error) {
	err = guard.Try(func() error {
		encoded, key, err = codec.Encode(klass, data)
		return err
	})
	return encoded, key, err
}

// safeDecode decodes data. It is an error if the codec does not return.
func safeDecode(codec Codec, key string, encoded []byte) (data []byte, err error) {
	err = guard.Try(func() error {
		data, err = codec.Decode(key, encoded)
		return err
	})
	return data, err
}

// encodePut encodes the data of a job to be put.
func (c *Client) encodePut(p *put) (err error) {
	p.data, err = c.encode("put", p.jid, p.klass, "data", p.data)
	return err
}

// decode returns the decoded form of stored data or a stored result.
func (c *Client) decode(jid, what string, stored json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(stored, []byte("x:codec")) {
		return stored, nil // as usual, without a copy for OpenEnvelope
	}
	e := wire.OpenEnvelope(string(stored))
	if e == nil {
		return stored, nil
	}
	name, key, _ := strings.Cut(e.Codec, ":")
	for _, codec := range c.codecs {
		if codec.Name() != name {
			continue
		}
		data, err := safeDecode(codec, key, e.Bytes)
		if err == nil && !wire.IsJSON(data) {
			err = fmt.Errorf("%q returned what is not JSON", name)
		}
		if err != nil {
			return stored, &Error{Op: "decode", Code: ErrInvalid, JID: jid, Err: err,
				Message: fmt.Sprintf("the %s can't be decoded: %v", what, err)}
		}
		return data, nil
	}
	return stored, &Error{Op: "decode", Code: ErrInvalid, JID: jid,
		Err:     errUnknownCodec,
		Message: fmt.Sprintf("the %s is encoded by %q, which the client does not know", what, name)}
}

// decodeData decodes the data of a job read from the server.
func (j *Job) decodeData() {
	j.Data, j.undecoded = j.client.decode(j.JID, "data", j.Data)
	j.dataSum = maphash.Bytes(dataSeed, j.Data)
}
