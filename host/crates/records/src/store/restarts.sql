CREATE TABLE audit_restarts (
    seq INTEGER PRIMARY KEY,
    hash TEXT NOT NULL
) STRICT;
