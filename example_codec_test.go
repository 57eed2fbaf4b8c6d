package qless_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"log"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// secrets encrypts with AES-GCM. Data that was encrypted with an older key can be read.
type secrets struct {
	current string
	keys    map[string]cipher.AEAD
}

// newSecrets takes keys of 16 or 32 bytes by their ids. New data is encrypted with the current one.
func newSecrets(current string, keys map[string][]byte) (*secrets, error) {
	s := &secrets{current: current, keys: map[string]cipher.AEAD{}}
	for id, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if s.keys[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *secrets) Name() string { return "aes-gcm" }

func (s *secrets) Encode(_ string, data []byte) (encoded []byte, key string, err error) {
	return s.keys[s.current].Seal(nil, nil, data, nil), s.current, nil
}

func (s *secrets) Decode(key string, encoded []byte) ([]byte, error) {
	aead, ok := s.keys[key]
	if !ok {
		return nil, fmt.Errorf("unknown key %q", key)
	}
	return aead.Open(nil, nil, encoded, nil)
}

// A client encrypts the data of its jobs. To change keys, add the new one to every program, and
// then make it the current one.
func ExampleClientConfig_codec() {
	ctx := context.Background()
	old, recent := make([]byte, 32), make([]byte, 32)
	_, _ = rand.Read(old)
	_, _ = rand.Read(recent)
	before, err := newSecrets("2025", map[string][]byte{"2025": old})
	if err != nil {
		log.Fatal(err)
	}
	after, err := newSecrets("2026", map[string][]byte{"2025": old, "2026": recent})
	if err != nil {
		log.Fatal(err)
	}
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Codec: before})
	if err != nil {
		log.Fatal(err)
	}
	patient := map[string]string{"name": "Ann"}
	jid, err := client.Queue("letters").Put(ctx, "Letter", patient)
	if err != nil {
		log.Fatal(err)
	}

	plain, err := qless.New(server.Redis(), nil)
	if err != nil {
		log.Fatal(err)
	}
	job, err := plain.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("without the codec:", strings.Contains(string(job.Data), "Ann"))

	rotated, err := qless.New(server.Redis(), &qless.ClientConfig{Codec: after})
	if err != nil {
		log.Fatal(err)
	}
	if job, err = rotated.Job(ctx, jid); err != nil {
		log.Fatal(err)
	}
	fmt.Println("with it:", string(job.Data))
	// Output:
	// without the codec: false
	// with it: {"name":"Ann"}
}
