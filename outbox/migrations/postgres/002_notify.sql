-- Notifies the channel qless_outbox when a transaction with new rows is committed. Postgres commits
-- transactions that notify one after the other; leave this out if that is too slow.
CREATE OR REPLACE FUNCTION qless_outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('qless_outbox', '');
    RETURN NULL;
END;
$$;

CREATE OR REPLACE TRIGGER qless_outbox_notify AFTER INSERT ON qless_outbox
    FOR EACH STATEMENT EXECUTE FUNCTION qless_outbox_notify();
