package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Digest returns a short digest of texts.
func Digest(texts ...string) string {
	hash := sha256.New()
	for _, text := range texts {
		hash.Write([]byte(strconv.Itoa(len(text)) + ":" + text))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
