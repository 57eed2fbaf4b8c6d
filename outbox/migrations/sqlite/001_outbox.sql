-- The outbox. Times are microseconds since 1970, by the clocks of the programs.
CREATE TABLE IF NOT EXISTS qless_outbox (
    number  INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of the rows
    jid     TEXT NOT NULL UNIQUE,
    queue   TEXT NOT NULL,
    klass   TEXT NOT NULL,
    data    TEXT NOT NULL,              -- JSON
    options TEXT NOT NULL,              -- as in the files of `qless job put`
    created INTEGER NOT NULL,
    claimed INTEGER NOT NULL DEFAULT 0, -- the time until which a relay has the row
    tried   INTEGER NOT NULL DEFAULT 0, -- the time at which a relay first had it
    problem TEXT                        -- the reason why no relay takes it any more
);

CREATE INDEX IF NOT EXISTS qless_outbox_open ON qless_outbox (number) WHERE problem IS NULL;
