-- Checks the scripts as servers load them: go run ./internal/cmd/luabundle -o DIR.
std = {
  read_globals = {
    "KEYS", "ARGV", "redis", "cjson", "unpack", "math", "string", "table",
    "error", "ipairs", "pairs", "pcall", "select", "tonumber", "tostring", "type",
  },
}
max_line_length = false
-- What a shared piece sets, not every command reads.
ignore = {"[23]11/stamp", "211/now", "211/prefix"}
