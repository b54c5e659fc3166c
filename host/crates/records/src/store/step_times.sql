CREATE TABLE step_times (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    repo TEXT NOT NULL,
    name TEXT NOT NULL,
    passed INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    UNIQUE (repo, name)
) STRICT;
