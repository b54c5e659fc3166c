CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL UNIQUE,
    repo TEXT NOT NULL,
    root TEXT NOT NULL,
    text TEXT NOT NULL,
    flags TEXT NOT NULL,
    state TEXT NOT NULL,
    phase TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    replans INTEGER NOT NULL DEFAULT 0,
    submitted_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    exit_code INTEGER,
    reason TEXT,
    owner_pid INTEGER NOT NULL,
    owner_start TEXT NOT NULL,
    owner_boot TEXT NOT NULL,
    owner_namespace TEXT NOT NULL,
    tokens TEXT NOT NULL DEFAULT '{}',
    cancel_requested INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX one_running_per_repo ON tasks (repo) WHERE state = 'RUNNING';
CREATE INDEX tasks_waiting ON tasks (repo, seq) WHERE state IN ('QUEUED', 'RUNNING');
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    task_id TEXT,
    repo TEXT NOT NULL,
    status TEXT,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    owner_pid INTEGER NOT NULL,
    owner_start TEXT NOT NULL,
    owner_boot TEXT NOT NULL,
    owner_namespace TEXT NOT NULL
) STRICT;
CREATE INDEX runs_of_task ON runs (task_id, started_at);
CREATE TABLE stuck_reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    repo TEXT NOT NULL,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    run_ids TEXT NOT NULL,
    written_at TEXT NOT NULL,
    resolved_at TEXT
) STRICT;
CREATE INDEX stuck_reports_unresolved ON stuck_reports (repo, id) WHERE resolved_at IS NULL;
