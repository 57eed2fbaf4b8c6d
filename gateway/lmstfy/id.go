package lmstfy

import (
	"crypto/rand"
	"encoding/binary"
	mathrand "math/rand/v2"
	"strings"
	"time"
)

// idAlphabet contains the digits of Crockford's base 32.
const idAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const idLen = 26

// formatID writes 16 bytes as a ULID.
func formatID(raw [16]byte) string {
	var text [idLen]byte
	high, low := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	for i := idLen - 1; i >= 0; i-- {
		text[i] = idAlphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:])
}

// newID returns a new id: 6 bytes of time in milliseconds, and 10 random ones.
func newID(now time.Time) string {
	return formatID(newRawID(now))
}

func newRawID(now time.Time) (raw [16]byte) {
	binary.BigEndian.PutUint64(raw[:8], uint64(now.UnixMilli())<<16|mathrand.Uint64N(1<<16))
	binary.BigEndian.PutUint64(raw[8:], mathrand.Uint64())
	return raw
}

// newJobIDs returns ids for jobs published together, in order: ULIDs with the delay in seconds in
// the last 4 bytes. The ids of jobs with attributes begin with an extra digit.
func newJobIDs(now time.Time, n int, delay uint32, versioned bool) []string {
	raw := newRawID(now)
	binary.LittleEndian.PutUint32(raw[12:], delay)
	random := binary.BigEndian.Uint32(raw[8:]) >> 1 // leaves room to count up
	ids := make([]string, n)
	for i := range ids {
		binary.BigEndian.PutUint32(raw[8:], random+uint32(i))
		ids[i] = formatID(raw)
		if versioned {
			ids[i] = "1" + ids[i]
		}
	}
	return ids
}

// publishedAt returns a job's time of publication, and whether the id contains a time.
func publishedAt(id string) (time.Time, bool) {
	if len(id) == idLen+1 && id[0] == '1' {
		id = id[1:]
	}
	if len(id) != idLen || id[0] > '7' {
		return time.Time{}, false
	}
	var ms int64
	for i := range idLen {
		digit := strings.IndexByte(idAlphabet, id[i])
		if digit < 0 {
			return time.Time{}, false
		}
		if i < 10 {
			ms = ms<<5 | int64(digit)
		}
	}
	return time.UnixMilli(ms), true
}

// newToken returns a token: a ULID with an unguessable random part.
func newToken() string {
	raw := newRawID(time.Now())
	_, _ = rand.Read(raw[6:])
	return formatID(raw)
}
