package wire
import ("testing";"fmt";"strings";"encoding/json";"unicode/utf8")
func payload(n int) []byte {
	var b strings.Builder
	b.WriteString("{\"records\":[")
	for i:=0;b.Len()<n-100;i++{ if i>0 {b.WriteString(",")}; fmt.Fprintf(&b, `{"id":%d,"name":"user %d","email":"user%d@example.com","active":true,"score":%d.5}`,i,i,i,i) }
	b.WriteString("]}")
	return []byte(b.String())
}
func BenchmarkCheck(b *testing.B){ p:=payload(10000); b.SetBytes(int64(len(p))); for i:=0;i<b.N;i++{ if CheckJSON(p)!="" {b.Fatal()}}}
func BenchmarkUTF(b *testing.B){ p:=payload(10000); b.SetBytes(int64(len(p))); for i:=0;i<b.N;i++{ if !utf8.Valid(p) {b.Fatal()}}}
func BenchmarkValid(b *testing.B){ p:=payload(10000); b.SetBytes(int64(len(p))); for i:=0;i<b.N;i++{ if !json.Valid(p) {b.Fatal()}}}
