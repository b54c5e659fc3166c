CREATE TABLE proposals (
    task_id TEXT PRIMARY KEY,
    repo TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    written_at TEXT NOT NULL,
    applied_by TEXT
) STRICT;
CREATE INDEX proposals_of_repo ON proposals (repo, written_at);
CREATE TABLE timings (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    task_id TEXT,
    attempt INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    at TEXT NOT NULL
) STRICT;
CREATE INDEX timings_of_task ON timings (task_id);
