-- The outbox. Times are microseconds since 1970, by the clocks of the programs.
CREATE TABLE IF NOT EXISTS qless_outbox (
    number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order of the rows
    jid     text NOT NULL UNIQUE,
    queue   text NOT NULL,
    klass   text NOT NULL,
    data    text NOT NULL,              -- JSON
    options text NOT NULL,              -- as in the files of `qless job put`
    created bigint NOT NULL,
    claimed bigint NOT NULL DEFAULT 0,  -- the time until which a relay has the row
    tried   bigint NOT NULL DEFAULT 0,  -- the time at which a relay first had it
    problem text                        -- the reason why no relay takes it any more
);

CREATE INDEX IF NOT EXISTS qless_outbox_open ON qless_outbox (number) WHERE problem IS NULL;
