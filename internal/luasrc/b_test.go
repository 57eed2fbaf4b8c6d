package luasrc
import ("testing";"os")
func TestB(t *testing.T) { s, err := Build(os.DirFS("../../lua")); if err != nil { t.Fatal(err) }; os.WriteFile("/tmp/one.lua", []byte(s), 0o644); println(len(s)) }
