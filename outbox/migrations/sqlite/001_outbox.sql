-- The outbox of qless: jobs that relays put into Redis. It may be run repeatedly.
CREATE TABLE IF NOT EXISTS qless_outbox_rows (
  number  INTEGER PRIMARY KEY AUTOINCREMENT,
  jid     TEXT NOT NULL UNIQUE,
  queue   TEXT NOT NULL,
  klass   TEXT NOT NULL,
  data    TEXT NOT NULL,
  options TEXT NOT NULL,
  bytes   INTEGER NOT NULL,
  -- Times are in microseconds since 1970.
  created INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
  due     INTEGER DEFAULT 0,   -- when a relay may take it, or NULL if it is set aside
  tries   INTEGER NOT NULL DEFAULT 0,
  kind    TEXT,                -- of the problem
  problem TEXT                 -- why it is set aside
);
CREATE INDEX IF NOT EXISTS qless_outbox_due ON qless_outbox_rows (due, number) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS qless_outbox_problems ON qless_outbox_rows (number)
  WHERE problem IS NOT NULL;

-- The rows that are put before others.
CREATE TABLE IF NOT EXISTS qless_outbox_needs (
  jid    TEXT NOT NULL,
  parent TEXT NOT NULL,
  PRIMARY KEY (jid, parent)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS qless_outbox_parents ON qless_outbox_needs (parent);

CREATE TABLE IF NOT EXISTS qless_outbox_version (version INTEGER PRIMARY KEY);
INSERT OR IGNORE INTO qless_outbox_version VALUES (1);
