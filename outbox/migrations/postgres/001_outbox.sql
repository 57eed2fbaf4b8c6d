-- The outbox of qless: jobs that relays put into Redis. It may be run repeatedly, and at once.
DO $$
BEGIN
  IF to_regclass('qless_outbox_version') IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(7163, 1);
  IF to_regclass('qless_outbox_version') IS NOT NULL THEN
    RETURN;
  END IF;

  CREATE TABLE qless_outbox_rows (
    number  BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    jid     TEXT NOT NULL UNIQUE,
    queue   TEXT NOT NULL,
    klass   TEXT NOT NULL,
    data    TEXT NOT NULL,
    options TEXT NOT NULL,
    bytes   BIGINT NOT NULL,
    -- Times are in microseconds since 1970, by the clock of the database.
    created BIGINT NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000),
    due     BIGINT DEFAULT 0,    -- when a relay may take it; NULL if it is set aside
    tries   INT NOT NULL DEFAULT 0,
    kind    TEXT,                -- of the problem
    problem TEXT                 -- why it is set aside
  );
  CREATE INDEX qless_outbox_due ON qless_outbox_rows (due, number) WHERE due IS NOT NULL;
  CREATE INDEX qless_outbox_problems ON qless_outbox_rows (number) WHERE problem IS NOT NULL;

  -- The rows that are put before others.
  CREATE TABLE qless_outbox_needs (
    jid    TEXT NOT NULL,
    parent TEXT NOT NULL,
    PRIMARY KEY (jid, parent)
  );
  CREATE INDEX qless_outbox_parents ON qless_outbox_needs (parent);

  -- Relays that listen look for rows at once.
  CREATE FUNCTION qless_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_notify(''qless_outbox'', ''''); RETURN NULL; END';
  CREATE TRIGGER qless_outbox_notify AFTER INSERT ON qless_outbox_rows
    FOR EACH STATEMENT EXECUTE FUNCTION qless_outbox_notify();

  CREATE TABLE qless_outbox_version (version INT PRIMARY KEY);
  INSERT INTO qless_outbox_version VALUES (1);
END $$;
