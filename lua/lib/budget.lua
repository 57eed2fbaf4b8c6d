-- The budget of this call: how much more it may do. Clients in other languages get everything in
-- one call. Go's commands set less, and Go calls them again for the rest.
--
--   drops      the number of expired jobs that it may drop
--   bytes      the bytes of data that it may return, or false for any; one job may have more
--   taken      the bytes of data of the jobs that it has taken
--   text       the bytes of JSON after which it returns no further job
--   relations  the number of dependents and dependencies that it may print, or false for any
--   releases   the number of dependents that it may release
--   tells      the number of dependents that it may notify of a failure

local budget = {
  drops = 1000, bytes = false, taken = 0, text = 262144, relations = false, releases = math.huge,
  tells = 200,
}
