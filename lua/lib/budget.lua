-- The budget of this call: how much more work is allowed. Classic clients receive everything in one
-- call. Go's commands set less, and Go calls again for the rest.
--
--   drops      the number of expired jobs to drop
--   bytes      the bytes of data to return, or false for any; a single job may have more
--   taken      the bytes of data of the jobs taken so far
--   text       the bytes of JSON after which no further job is returned
--   relations  the number of dependents and dependencies to print, or false for any
--   releases   the number of dependents to release
--   tells      the number of dependents to notify of a failure

local budget = {
  drops = 1000, bytes = false, taken = 0, text = 262144, relations = false, releases = math.huge,
  tells = 200,
}
