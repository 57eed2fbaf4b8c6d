-- Checks the scripts with their includes: go run ./internal/cmd/luabundle -plain DIR.
std = {
  read_globals = {
    "KEYS", "ARGV", "redis", "cjson", "unpack", "math", "string", "table",
    "error", "ipairs", "pairs", "pcall", "select", "tonumber", "tostring", "type",
  },
}
max_line_length = false
ignore = {
  -- What a shared piece sets, not every command reads.
  "[23]11/stamp", "[23][1-3]1/now", "211/prefix", "211/related_left",
  -- Functions that stand side by side in the sources may come to stand inside one another.
  "4[23].",
}

-- The doctor's scripts share one beginning, of which each uses a part.
files["**/doctor-*.lua"] = {ignore = {"211"}}
