//! Opening the database: made whole or not at all, judged before anything is written to it.

use std::path::Path;
use std::sync::Mutex;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Mode, OFlags, fsync, openat};

use super::file::{self, NAME};
use super::schema::{self, APPLICATION_ID, VERSION};
use super::{LONGEST_WAIT, Store, StoreError};
use act_fs::Dir;
use act_fs::lock::{self, Kind};

/// A database in the making, and what SQLite puts beside it.
const NEW: [&str; 4] = [".act.db.new", ".act.db.new-wal", ".act.db.new-shm", ".act.db.new-journal"];

impl Store {
    /// The database in the directory `path`, open as `state`; made when there is none. What is damaged,
    /// foreign or of a newer version is refused and left byte for byte as it is.
    ///
    /// Once in a process: to look at the file and close it lets go of every lock that the process has on it.
    pub fn open(state: &Dir, path: &Path) -> Result<Self, StoreError> {
        let path = path.join(NAME);
        if !file::exists(state, &path)? {
            create(state, &path)?;
        }
        let connection = connect(&path).map_err(|error| StoreError::of(&path, error))?;
        judge(&connection, &path)?;
        // Only now may closing it write what a log holds back into the file.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(|error| StoreError::of(&path, error))?;
        Ok(Self { connection: Mutex::new(connection), path })
    }
}

impl Store {
    /// Whether `open` would take what is there; makes and migrates nothing.
    pub fn look(state: &Dir, path: &Path) -> Result<(), StoreError> {
        let path = path.join(NAME);
        if !file::exists(state, &path)? {
            return Ok(());
        }
        let connection = connect(&path).map_err(|error| StoreError::of(&path, error))?;
        if sound(&connection, &path)? == VERSION {
            ours(&connection, &path)?;
        }
        // As every reader does, the last one of all puts what SQLite keeps beside the file away.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(|error| StoreError::of(&path, error))
            .map(|_| ())
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.busy_timeout(LONGEST_WAIT)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

fn judge(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let of = |error| StoreError::of(path, error);
    if sound(connection, path)? < VERSION {
        let migrated = connection
            .execute_batch("BEGIN IMMEDIATE")
            .and_then(|()| schema::migrate(connection))
            .and_then(|()| connection.execute_batch("COMMIT"));
        migrated.map_err(of)?;
    }
    ours(connection, path)
}

fn ours(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    if schema::is_ours(connection).map_err(|error| StoreError::of(path, error))? {
        return Ok(());
    }
    let reason = "its tables are not those of act".to_owned();
    Err(StoreError::Damaged { path: path.to_owned(), reason })
}

/// The version of a database that is whole.
fn sound(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let of = |error| StoreError::of(path, error);
    let damaged = |reason: String| StoreError::Damaged { path: path.to_owned(), reason };
    if connection.is_readonly("main").map_err(of)? {
        let reason = "it is write-protected".to_owned();
        return Err(StoreError::Unusable { path: path.to_owned(), reason });
    }
    // The header in the file may be behind what the log holds.
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(of)?;
    if version > VERSION {
        return Err(StoreError::Future { path: path.to_owned(), version, known: VERSION });
    }
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(of)?;
    if found != "ok" {
        return Err(damaged(found));
    }
    Ok(version)
}

/// Made beside and renamed when it is complete, by one process at a time: nobody ever sees a part of it, and
/// what a killed one left is gone with the next.
fn create(state: &Dir, path: &Path) -> Result<(), StoreError> {
    let io = |error: std::io::Error| StoreError::io(path, error);
    let turn = state.reopen().map_err(io)?;
    if !lock::wait(&turn, Kind::Exclusive, LONGEST_WAIT).map_err(io)? {
        return Err(StoreError::Busy { path: path.to_owned() });
    }
    // Somebody else may have been faster.
    if file::exists(state, path)? {
        return Ok(());
    }
    for left in NEW {
        state.remove_file(left).map_err(io)?;
    }
    let [new, ..] = NEW;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle =
        openat(state, new, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| io(errno.into()))?;
    fill(&path.with_file_name(new)).map_err(|error| StoreError::of(path, error))?;
    fsync(&handle).map_err(|errno| io(errno.into()))?;
    state.rename(new, NAME).map_err(io)?;
    state.sync().map_err(io)
}

fn fill(path: &Path) -> rusqlite::Result<()> {
    let connection = connect(path)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    schema::migrate(&connection)?;
    connection.execute_batch("COMMIT")?;
    // Stays in the file's header, so for every later connection.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, error)| error)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use std::time::Instant;

    use super::*;

    pub(super) fn state(dir: &Path) -> Dir {
        Dir::open(dir).unwrap()
    }

    fn open(dir: &Path) -> Result<Store, StoreError> {
        Store::open(&state(dir), dir)
    }

    /// A database with a table's worth of content, closed.
    fn filled() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        store.connection().execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO runs SELECT 'run_' || i, NULL, 'r', 'PASS', hex(randomblob(60)), NULL, 1, '', '', '', NULL FROM n",
        )
        .unwrap();
        dir
    }

    #[track_caller]
    fn refused(dir: &Path, code: &str) {
        let path = dir.join(NAME);
        let before = fs::read(&path).ok();
        let error = open(dir).expect_err("refused");
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(!error.hint().is_empty());
        assert_eq!(fs::read(&path).ok(), before, "left as found");
    }

    #[test]
    fn a_new_database_is_whole_and_for_its_owner_alone() {
        // STORE-1, STORE-2
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let names = || {
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["act.db", "act.db-shm", "act.db-wal"]);
        for name in names() {
            let mode = fs::metadata(dir.path().join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let mode: String =
            store.connection().query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        drop(store);
        assert_eq!(names(), ["act.db"]);
        open(dir.path()).unwrap();
    }

    /// As a version before the first would have left it, with something in it.
    fn older(dir: &Path, something: &str) -> Connection {
        let connection = Connection::open(dir.join(NAME)).unwrap();
        connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        connection.execute_batch(something).unwrap();
        connection
    }

    #[test]
    fn an_older_database_is_brought_up_to_date_whole_or_not_at_all() {
        // STORE-7
        let dir = tempfile::tempdir().unwrap();
        let connection = older(dir.path(), "");
        judge(&connection, &dir.path().join(NAME)).unwrap();
        assert!(schema::is_ours(&connection).unwrap());
        let version = |connection: &Connection| -> i64 {
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(version(&connection), VERSION);

        // In the way of the second table.
        let dir = tempfile::tempdir().unwrap();
        let connection = older(dir.path(), "CREATE TABLE runs (x)");
        assert!(judge(&connection, &dir.path().join(NAME)).is_err());
        drop(connection);
        let connection = Connection::open(dir.path().join(NAME)).unwrap();
        assert_eq!(version(&connection), 0);
        let count = "SELECT count(*) FROM sqlite_schema";
        let tables: i64 = connection.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 1, "nothing of the step before it is left");
    }

    #[test]
    fn nobody_waits_for_ever_for_one_that_holds_it() {
        // STORE-6
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let holder = Connection::open(dir.path().join(NAME)).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let start = Instant::now();
        let error = store.forget("t-1").unwrap_err();
        assert_eq!((error.code(), error.may_pass()), ("store_busy", true));
        assert!((LONGEST_WAIT..LONGEST_WAIT * 2).contains(&start.elapsed()));
        holder.execute_batch("ROLLBACK").unwrap();
        assert!(!store.forget("t-1").unwrap(), "and then it goes on");
    }

    #[test]
    fn what_a_killed_creation_left_is_in_nobodys_way() {
        // STORE-2, security line 129
        let dir = tempfile::tempdir().unwrap();
        for left in NEW {
            fs::write(dir.path().join(left), "half").unwrap();
        }
        open(dir.path()).unwrap();
        assert!(!dir.path().join(NEW[0]).exists());
    }

    #[test]
    fn a_damaged_database_is_refused_and_left_as_found() {
        // STORE-3, security line 136
        let whole = fs::read(filled().path().join(NAME)).unwrap();
        assert!(whole.len() > 40_000);
        let lengths = [0, 1, 99, 100, 512, 4096, 4097, whole.len() / 2, whole.len() - 4096];
        for length in lengths {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(NAME), &whole[..length]).unwrap();
            refused(dir.path(), "store_damaged");
        }
        let dir = tempfile::tempdir().unwrap();
        let noise: Vec<u8> =
            (0..9000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(dir.path().join(NAME), &noise).unwrap();
        refused(dir.path(), "store_damaged");
        // The header is good, a page behind it is not.
        let mut broken = whole.clone();
        broken[4096 * 5..4096 * 6].copy_from_slice(&noise[..4096]);
        fs::write(dir.path().join(NAME), &broken).unwrap();
        refused(dir.path(), "store_damaged");
    }

    #[test]
    fn what_is_no_database_of_ours_is_refused() {
        // STORE-3, security line 136
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(NAME)).unwrap();
        refused(dir.path(), "store_foreign");

        let dir = tempfile::tempdir().unwrap();
        symlink(filled().path().join(NAME), dir.path().join(NAME)).unwrap();
        refused(dir.path(), "store_foreign");

        let dir = tempfile::tempdir().unwrap();
        Connection::open(dir.path().join(NAME))
            .unwrap()
            .execute_batch("CREATE TABLE a (b)")
            .unwrap();
        refused(dir.path(), "store_foreign");

        let dir = filled();
        let other = Connection::open(dir.path().join(NAME)).unwrap();
        other
            .execute_batch("CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM tasks; END")
            .unwrap();
        drop(other);
        refused(dir.path(), "store_damaged");
    }

    #[test]
    fn a_newer_version_is_refused_also_when_only_the_log_knows() {
        // STORE-3, security line 136
        let dir = filled();
        let later = Connection::open(dir.path().join(NAME)).unwrap();
        later.pragma_update(None, "user_version", 99).unwrap();
        refused(dir.path(), "store_future");
        drop(later);
        refused(dir.path(), "store_future");
    }

    #[test]
    fn changes_of_a_database_that_is_gone_are_not_played_into_a_new_one() {
        // STORE-3, security line 136
        let dir = filled();
        fs::rename(dir.path().join(NAME), dir.path().join("elsewhere")).unwrap();
        fs::write(dir.path().join("act.db-wal"), "old").unwrap();
        refused(dir.path(), "store_damaged");
        assert!(!dir.path().join(NAME).exists());
        // What holds no changes is in nobody's way.
        fs::rename(dir.path().join("act.db-wal"), dir.path().join("act.db-shm")).unwrap();
        open(dir.path()).unwrap();
    }

    #[test]
    fn without_its_log_the_database_says_what_it_said_before() {
        // STORE-4, security line 136
        let dir = filled();
        let count = |store: &Store| -> i64 {
            store.connection().query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap()
        };
        let store = open(dir.path()).unwrap();
        store.connection().execute_batch("DELETE FROM runs WHERE run_id = 'run_1'").unwrap();
        assert_eq!(count(&store), 399);
        // As a crash leaves it.
        for name in [NAME, "act.db-wal"] {
            fs::copy(dir.path().join(name), dir.path().join(format!("{name}.kept"))).unwrap();
        }
        drop(store);
        fs::rename(dir.path().join("act.db.kept"), dir.path().join(NAME)).unwrap();
        assert_eq!(count(&open(dir.path()).unwrap()), 400);
    }
}
