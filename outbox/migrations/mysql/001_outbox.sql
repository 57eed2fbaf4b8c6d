-- The outbox of qless: jobs that relays put into Redis. It may be run repeatedly, and at once.
CREATE TABLE IF NOT EXISTS qless_outbox_rows (
  number  BIGINT AUTO_INCREMENT PRIMARY KEY,
  jid     VARBINARY(512) NOT NULL UNIQUE,
  queue   TEXT NOT NULL,
  klass   TEXT NOT NULL,
  data    LONGTEXT NOT NULL,
  options LONGTEXT NOT NULL,
  bytes   BIGINT NOT NULL,
  -- Times are in microseconds since 1970, by the clock of the database.
  created BIGINT NOT NULL
    DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
  due     BIGINT DEFAULT 0,    -- when a relay may take it, or NULL if it is set aside
  tries   INT NOT NULL DEFAULT 0,
  kind    VARCHAR(40),         -- of the problem
  problem TEXT,                -- why it is set aside
  INDEX qless_outbox_due (due, number),
  INDEX qless_outbox_problems (kind)
) ENGINE InnoDB CHARACTER SET utf8mb4;

-- The rows that are put before others.
CREATE TABLE IF NOT EXISTS qless_outbox_needs (
  jid    VARBINARY(512) NOT NULL,
  parent VARBINARY(512) NOT NULL,
  PRIMARY KEY (jid, parent),
  INDEX qless_outbox_parents (parent)
) ENGINE InnoDB;

CREATE TABLE IF NOT EXISTS qless_outbox_version (version INT PRIMARY KEY) ENGINE InnoDB;
INSERT IGNORE INTO qless_outbox_version VALUES (1);
