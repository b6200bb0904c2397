-- The identity of the store. The bucket has a file with the same id, and an epoch that is at most that of the
-- database. Each opening increments the epoch, first here, then in the bucket: an older copy of the database
-- has a smaller one than the bucket.
--
-- `installation` and `generation` are the stamp of the servers that use the store, NULL if none ever did.
CREATE TABLE store.identity (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id bytea NOT NULL CHECK (octet_length(id) = 16),
    epoch int8 NOT NULL DEFAULT 0,
    grown timestamptz NOT NULL DEFAULT now(),
    installation text,
    generation int8
);

INSERT INTO store.identity (id) VALUES (uuid_send(gen_random_uuid()));
