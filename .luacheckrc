-- Checks the sources. What they use of each other, internal/luasrc checks.
std = {
  globals = {"ARGV"},
  read_globals = {
    "KEYS", "redis", "cjson", "unpack", "math", "string", "table",
    "error", "ipairs", "pairs", "pcall", "select", "tonumber", "tostring", "type",
  },
}
max_line_length = false
exclude_files = {"lua/qless.lua", "lua/classic.lua", "doctor/doctor.lua"} -- they are generated

for _, place in ipairs({"lua/prologue.lua", "**/lua/lib/*.lua"}) do
  files[place] = {ignore = {"1..", "211", "221", "231", "311", "331"}}
end
files["**/lua/commands/*.lua"] = {ignore = {"1.."}}
