-- Outhaul's tables on SQLite. Times are integer UTC microseconds.
--
-- Producers insert through their own SQLite library, which may be years old: whatever runs inside
-- their INSERT (checks, defaults, triggers) uses functions of SQLite 3.38 only. Text compares
-- bytewise, because BINARY is SQLite's own collation.

CREATE TABLE outbox_event (
    -- AUTOINCREMENT: a purged event's number is never given again. A negative one is a producer's own.
    seq           INTEGER PRIMARY KEY AUTOINCREMENT
        CONSTRAINT outbox_event_seq_is_given_by_the_database CHECK (seq > 0),
    tenant_id     TEXT NOT NULL DEFAULT ''
        CONSTRAINT outbox_event_tenant_id_is_text_of_at_most_255_bytes CHECK (
            typeof(tenant_id) = 'text' AND length(CAST(tenant_id AS BLOB)) <= 255
            AND instr(tenant_id, char(0)) = 0),
    event_id      TEXT NOT NULL
        CONSTRAINT outbox_event_event_id_is_text_of_1_to_255_bytes CHECK (
            typeof(event_id) = 'text' AND length(CAST(event_id AS BLOB)) BETWEEN 1 AND 255
            AND instr(event_id, char(0)) = 0),
    topic         TEXT NOT NULL
        CONSTRAINT outbox_event_topic_is_text_of_1_to_255_bytes CHECK (
            typeof(topic) = 'text' AND length(CAST(topic AS BLOB)) BETWEEN 1 AND 255
            AND instr(topic, char(0)) = 0)
        CONSTRAINT outbox_event_topic_has_no_white_space CHECK (
            topic NOT GLOB '*[' || char(9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197, 8198, 8199, 8200, 8201, 8202, 8232, 8233, 8239, 8287, 12288) || ']*'),
    -- Text is taken for its bytes.
    payload       BLOB NOT NULL
        CONSTRAINT outbox_event_payload_is_bytes_or_text CHECK (typeof(payload) IN ('blob', 'text')),
    partition_key TEXT
        CONSTRAINT outbox_event_partition_key_is_text_of_1_to_255_bytes CHECK (
            partition_key IS NULL
            OR (typeof(partition_key) = 'text' AND length(CAST(partition_key AS BLOB)) BETWEEN 1 AND 255
                AND instr(partition_key, char(0)) = 0)),
    headers       TEXT
        CONSTRAINT outbox_event_headers_is_a_json_object_of_strings CHECK (
            headers IS NULL OR (typeof(headers) = 'text' AND json_valid(headers) AND json_type(headers) = 'object')),
    content_type  TEXT NOT NULL DEFAULT 'application/json'
        CONSTRAINT outbox_event_content_type_is_text_of_1_to_255_bytes CHECK (
            typeof(content_type) = 'text' AND length(CAST(content_type AS BLOB)) BETWEEN 1 AND 255
            AND instr(content_type, char(0)) = 0),
    -- The range tells a time in nanoseconds, which would be due in 50,000 years.
    available_at  INTEGER
        CONSTRAINT outbox_event_available_at_is_integer_microseconds_of_1970_to_9999 CHECK (
            available_at IS NULL
            OR (typeof(available_at) = 'integer' AND available_at BETWEEN 0 AND 253402300799999999)),
    expires_at    INTEGER
        CONSTRAINT outbox_event_expires_at_is_integer_microseconds_of_1970_to_9999 CHECK (
            expires_at IS NULL
            OR (typeof(expires_at) = 'integer' AND expires_at BETWEEN 0 AND 253402300799999999)),
    created_at    INTEGER NOT NULL
        DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)
        CONSTRAINT outbox_event_created_at_is_integer_microseconds_of_1970_to_9999 CHECK (
            typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 253402300799999999),
    -- In this order, so that an event is found by its ID alone too.
    CONSTRAINT outbox_event_identity UNIQUE (event_id, tenant_id)
);

CREATE TABLE outbox_destination (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    name             TEXT NOT NULL UNIQUE,
    state            TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'stopped', 'removed')),
    -- Grows with each change of state, so that an answer to an earlier claim moves nothing.
    epoch            INTEGER NOT NULL DEFAULT 1,
    pauses           INTEGER NOT NULL DEFAULT 0,
    -- Null on a paused lane: an operator paused it.
    paused_until     INTEGER,
    reason           TEXT,
    config_digest    TEXT NOT NULL DEFAULT '',
    ordering         TEXT NOT NULL DEFAULT 'none' CHECK (ordering IN ('none', 'key-block', 'key-skip')),
    probe_token      BLOB,
    probe_until      INTEGER,
    last_success_at  INTEGER,
    -- The latest of its deliveries' deferrals: a success is written down only after one.
    last_deferred_at INTEGER
);

-- Events that no route matches have their delivery here until one does.
INSERT INTO outbox_destination (id, name) VALUES (0, '(unrouted)');

-- Narrow, without the payload. Status: 0 pending, 1 delivered, 2 dead, 3 cancelled, 4 unrouted.
CREATE TABLE outbox_delivery (
    destination_id   INTEGER NOT NULL,
    event_seq        INTEGER NOT NULL,
    status           INTEGER NOT NULL CHECK (status BETWEEN 0 AND 4),
    -- Behind the head of its key, and so out of the due indexes.
    parked           INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
    uncertain        INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    deferrals        INTEGER NOT NULL DEFAULT 0,
    lost             INTEGER NOT NULL DEFAULT 0,
    fence            INTEGER NOT NULL DEFAULT 0,
    -- A live lease moves it to lease_until; otherwise it is never later than expires_at.
    due_at           INTEGER,
    lease_until      INTEGER,
    claim_token      BLOB,
    claimed_at       INTEGER,
    first_claimed_at INTEGER,
    last_deferred_at INTEGER,
    finished_at      INTEGER,
    -- Copied from the event; null once an operator ignored it.
    expires_at       INTEGER,
    tenant_id        TEXT NOT NULL,
    partition_key    TEXT,
    claimed_by       TEXT,
    disposition      TEXT,
    reference        TEXT,
    last_error       TEXT,
    PRIMARY KEY (destination_id, event_seq)
) WITHOUT ROWID;

-- What a claim walks. A claim sets due_at to the lease's end, so leased rows leave the head. A row
-- that is due and still has its token is a claim that expired: its loss counts already.
CREATE INDEX outbox_delivery_due ON outbox_delivery (destination_id, due_at, event_seq)
    WHERE status = 0 AND parked = 0 AND lost + (claim_token IS NOT NULL) < 2;
-- Deliveries that may have killed the process twice.
CREATE INDEX outbox_delivery_due_suspect ON outbox_delivery (destination_id, due_at, event_seq)
    WHERE status = 0 AND parked = 0 AND lost + (claim_token IS NOT NULL) >= 2;
-- What a status counts and a cancel walks.
CREATE INDEX outbox_delivery_pending ON outbox_delivery (destination_id, event_seq) WHERE status = 0;
-- The order of a key: its unfinished deliveries, its dead ones, its leases, and who is parked.
CREATE INDEX outbox_delivery_key ON outbox_delivery (destination_id, tenant_id, partition_key, event_seq)
    WHERE status = 0 AND partition_key IS NOT NULL;
CREATE INDEX outbox_delivery_key_dead ON outbox_delivery (destination_id, tenant_id, partition_key, event_seq)
    WHERE status = 2 AND partition_key IS NOT NULL;
CREATE INDEX outbox_delivery_key_leased ON outbox_delivery (destination_id, tenant_id, partition_key, lease_until)
    WHERE lease_until IS NOT NULL AND partition_key IS NOT NULL;
CREATE INDEX outbox_delivery_parked ON outbox_delivery (destination_id, tenant_id, partition_key, event_seq)
    WHERE parked = 1;
CREATE INDEX outbox_delivery_expiry ON outbox_delivery (destination_id, expires_at)
    WHERE status = 0 AND expires_at IS NOT NULL;
CREATE INDEX outbox_delivery_dead ON outbox_delivery (destination_id, event_seq) WHERE status = 2;
CREATE INDEX outbox_delivery_leased ON outbox_delivery (destination_id, lease_until)
    WHERE status = 0 AND lease_until IS NOT NULL;

CREATE TABLE outbox_route (
    pattern        TEXT NOT NULL,
    destination_id INTEGER NOT NULL REFERENCES outbox_destination (id),
    generation     INTEGER NOT NULL,
    PRIMARY KEY (destination_id, pattern)
) WITHOUT ROWID;

-- Each configuration that was taken as the routes of all hosts; the highest is current.
CREATE TABLE outbox_generation (
    generation    INTEGER PRIMARY KEY,
    config_digest TEXT NOT NULL,
    host_id       TEXT NOT NULL,
    taken_at      INTEGER NOT NULL
);

CREATE TABLE outbox_attempt (
    event_seq        INTEGER NOT NULL,
    destination_id   INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    host             TEXT NOT NULL,
    started_at       INTEGER,
    ended_at         INTEGER,
    outcome          TEXT NOT NULL,
    code             TEXT,
    message          TEXT,
    uncertain        INTEGER NOT NULL,
    component_digest TEXT,
    PRIMARY KEY (event_seq, destination_id, fence)
) WITHOUT ROWID;

CREATE TABLE outbox_action (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at     INTEGER NOT NULL,
    who    TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    count  INTEGER NOT NULL
);

CREATE TABLE outbox_host (
    host_id        TEXT PRIMARY KEY,
    version        TEXT NOT NULL,
    config_digest  TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    last_seen      INTEGER NOT NULL,
    notes          TEXT NOT NULL DEFAULT '{}'
) WITHOUT ROWID;

-- Distinct events that a lane rejected since the last that it did not.
CREATE TABLE outbox_rejection (
    destination_id INTEGER NOT NULL,
    event_seq      INTEGER NOT NULL,
    PRIMARY KEY (destination_id, event_seq)
) WITHOUT ROWID;

-- IDs that an INSERT met a second time. OR IGNORE leaves its row here; OR REPLACE is caught by it,
-- because REPLACE deletes the first event without firing the guard of DELETE.
CREATE TABLE outbox_duplicate (
    event_id  TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    PRIMARY KEY (event_id, tenant_id)
) WITHOUT ROWID;

-- SQLite keeps any bytes as text. Two IDs that differ only in bytes that are no character would be
-- read as one.
CREATE TRIGGER outbox_refuse_other_encodings BEFORE INSERT ON outbox_event
BEGIN
    SELECT CASE bad.name
        WHEN 'tenant_id' THEN RAISE(ABORT, 'outbox_event: tenant_id is not UTF-8; encode it as UTF-8')
        WHEN 'event_id' THEN RAISE(ABORT, 'outbox_event: event_id is not UTF-8; encode it as UTF-8')
        WHEN 'topic' THEN RAISE(ABORT, 'outbox_event: topic is not UTF-8; encode it as UTF-8')
        WHEN 'partition_key' THEN RAISE(ABORT, 'outbox_event: partition_key is not UTF-8; encode it as UTF-8')
        WHEN 'content_type' THEN RAISE(ABORT, 'outbox_event: content_type is not UTF-8; encode it as UTF-8')
        WHEN 'headers' THEN RAISE(ABORT, 'outbox_event: headers are not UTF-8, or other than ASCII and longer than 65536 characters; encode them as UTF-8, long ones in ASCII with \u escapes')
    END
    FROM (
        SELECT 'tenant_id' AS name, NEW.tenant_id AS value
        UNION ALL SELECT 'event_id', NEW.event_id
        UNION ALL SELECT 'topic', NEW.topic
        UNION ALL SELECT 'partition_key', NEW.partition_key
        UNION ALL SELECT 'content_type', NEW.content_type
        UNION ALL SELECT 'headers', NEW.headers
    ) bad
    WHERE bad.value GLOB '*[^' || char(1) || '-' || char(127) || ']*'
      AND (length(bad.value) > 65536 OR EXISTS (
          -- What is no character in UTF-8 does not survive unicode() and char(); of the characters,
          -- U+FFFE and U+FFFF don't either. Counted in digits to the base 16, because a trigger has
          -- no WITH. In parts, because substr() walks from the beginning; the LIMIT keeps a part from
          -- being cut out anew for each of its characters.
          SELECT 1
          FROM (
              SELECT substr(bad.value, 4096 * i.value + 256 * j.value + 1, 256) AS value
              FROM json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]') i
              CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]') j
              WHERE 4096 * i.value + 256 * j.value < length(bad.value)
              LIMIT 256
          ) part
          CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]') k
          CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]') l
          WHERE part.value GLOB '*[^' || char(1) || '-' || char(127) || ']*'
            AND 16 * k.value + l.value < length(part.value)
            AND substr(part.value, 16 * k.value + l.value + 1, 1) NOT IN (
                char(unicode(substr(part.value, 16 * k.value + l.value + 1, 1))), char(65534), char(65535))));
END;

CREATE TRIGGER outbox_note_duplicate BEFORE INSERT ON outbox_event
BEGIN
    SELECT RAISE(ABORT, 'outbox_event: every value in headers must be a string')
    WHERE NEW.headers IS NOT NULL
      AND json_valid(NEW.headers)
      AND EXISTS (SELECT 1 FROM json_each(NEW.headers) WHERE type <> 'text');

    -- JSON can escape half of a surrogate pair, which is no character: bytes ED A0 to ED BF.
    SELECT RAISE(ABORT, 'outbox_event: headers hold half of a surrogate pair (\ud800 to \udfff), which is no character')
    WHERE NEW.headers GLOB '*\u[dD][89a-fA-F]*'
      AND json_valid(NEW.headers)
      AND EXISTS (
          SELECT 1
          FROM json_each(NEW.headers) header
          CROSS JOIN json_each('[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31]') n
          WHERE instr(
              CAST(header.key || ' ' || header.value AS BLOB),
              substr(CAST(char(55296 + 64 * n.value) AS BLOB), 1, 2)) > 0);

    -- One that a producer gave may be the last there is, after which none can be given. Left out, it
    -- is -1 here.
    SELECT RAISE(ABORT, 'outbox_event: seq is given by the database; leave seq out')
    WHERE NEW.seq <> -1;

    INSERT INTO outbox_duplicate (event_id, tenant_id)
    SELECT event_id, tenant_id
    FROM outbox_event
    WHERE event_id = NEW.event_id
      AND tenant_id = NEW.tenant_id
      AND NOT EXISTS (
          SELECT 1 FROM outbox_duplicate d WHERE d.event_id = NEW.event_id AND d.tenant_id = NEW.tenant_id);
END;

CREATE TRIGGER outbox_route_inserted AFTER INSERT ON outbox_event
BEGIN
    SELECT RAISE(ABORT, 'outbox_event: an event is never changed once it is written; INSERT OR REPLACE is refused, use INSERT or INSERT OR IGNORE')
    WHERE EXISTS (
        SELECT 1 FROM outbox_duplicate d WHERE d.event_id = NEW.event_id AND d.tenant_id = NEW.tenant_id);

    -- Bytewise: % and _ are ordinary characters, and prefix.* reaches any depth.
    INSERT INTO outbox_delivery (destination_id, event_seq, status, due_at, expires_at, tenant_id, partition_key)
    SELECT DISTINCT
        r.destination_id,
        NEW.seq,
        0,
        -- By this clock and not created_at, which is the producer's.
        min(max(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000,
                coalesce(NEW.available_at, 0)),
            coalesce(NEW.expires_at, 9223372036854775807)),
        NEW.expires_at,
        NEW.tenant_id,
        NEW.partition_key
    FROM outbox_route r
    WHERE r.pattern = '*'
       OR r.pattern = NEW.topic
       OR (substr(r.pattern, -2) = '.*'
           AND substr(NEW.topic, 1, length(r.pattern) - 1) = substr(r.pattern, 1, length(r.pattern) - 1));

    INSERT INTO outbox_delivery (destination_id, event_seq, status, expires_at, tenant_id, partition_key)
    SELECT 0, NEW.seq, 4, NEW.expires_at, NEW.tenant_id, NEW.partition_key
    WHERE NOT EXISTS (
        SELECT 1
        FROM outbox_delivery
        WHERE destination_id IN (SELECT id FROM outbox_destination) AND event_seq = NEW.seq);
END;

CREATE TRIGGER outbox_refuse_update BEFORE UPDATE ON outbox_event
BEGIN
    SELECT RAISE(ABORT, 'outbox_event: UPDATE is refused, an event is never changed once it is written; insert a new event');
END;

CREATE TRIGGER outbox_refuse_early_delete BEFORE DELETE ON outbox_event
BEGIN
    SELECT RAISE(ABORT, 'outbox_event: DELETE is refused, the event has not been routed yet; a running host routes it')
    WHERE NOT EXISTS (
        SELECT 1
        FROM outbox_delivery
        WHERE destination_id IN (SELECT id FROM outbox_destination) AND event_seq = OLD.seq);

    SELECT RAISE(ABORT, 'outbox_event: DELETE is refused, the event has an unfinished delivery; deliver, cancel or discard it first')
    WHERE EXISTS (
        SELECT 1
        FROM outbox_delivery
        WHERE destination_id IN (SELECT id FROM outbox_destination)
          AND event_seq = OLD.seq
          AND (status NOT IN (1, 3)
               OR lease_until > CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000));
END;

-- What hangs on a deleted event goes with it.
CREATE TRIGGER outbox_forget_deleted AFTER DELETE ON outbox_event
BEGIN
    DELETE FROM outbox_delivery
    WHERE destination_id IN (SELECT id FROM outbox_destination) AND event_seq = OLD.seq;
    DELETE FROM outbox_attempt WHERE event_seq = OLD.seq;
    DELETE FROM outbox_duplicate WHERE event_id = OLD.event_id AND tenant_id = OLD.tenant_id;
END;
