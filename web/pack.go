package web

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strings"
	"sync"
)

// A packer compresses a response with gzip. Each Write compresses and sends its text separately: a
// page updated for hours holds no compressor.
type packer struct {
	http.ResponseWriter
	hasBegun, isPacked bool
	sum, size          uint32
}

var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.DefaultCompression)
	return w
}}

// packed compresses the responses of a handler for clients that accept gzip. Responses to requests
// from other sites stay uncompressed, because their size could reveal something to the site.
func packed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept, Accept-Encoding")
		isForeign := r.Header.Get("Sec-Fetch-Site") == "cross-site"
		accepts := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
		if isForeign || !accepts || r.Method == http.MethodHead || r.Header.Get("Range") != "" {
			h.ServeHTTP(w, r)
			return
		}
		p := &packer{ResponseWriter: w}
		h.ServeHTTP(p, r)
		p.end()
	})
}

// Unwrap is for [http.ResponseController].
func (p *packer) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *packer) WriteHeader(status int) {
	header := p.Header()
	p.isPacked = status != http.StatusNoContent && status != http.StatusNotModified
	if p.hasBegun = true; p.isPacked {
		header.Set("Content-Encoding", "gzip")
		header.Del("Content-Length")
	}
	p.ResponseWriter.WriteHeader(status)
	if p.isPacked {
		_, _ = p.ResponseWriter.Write([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"))
	}
}

func (p *packer) Write(text []byte) (int, error) {
	if !p.hasBegun {
		p.WriteHeader(http.StatusOK)
	}
	if !p.isPacked {
		return p.ResponseWriter.Write(text)
	}
	var all bytes.Buffer
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&all)
	_, _ = w.Write(text) // into memory
	_ = w.Flush()
	p.sum = crc32.Update(p.sum, crc32.IEEETable, text)
	p.size += uint32(len(text))
	if _, err := p.ResponseWriter.Write(all.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// end ends the compressed text with an empty block and its checksum.
func (p *packer) end() {
	if p.isPacked {
		last := binary.LittleEndian.AppendUint32([]byte{3, 0}, p.sum)
		_, _ = p.ResponseWriter.Write(binary.LittleEndian.AppendUint32(last, p.size))
	}
}
