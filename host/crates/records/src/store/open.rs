//! Opens the database: creates it whole or not at all, and judges an existing one before anything is written to it.
//!
//! The file is first judged by handle, before SQLite sees it: [`exists`]. SQLite then checks every page, at every open:
//! STORE-3 promises that a damaged database is refused even if the command does not read the damaged page, and a page can be
//! damaged after a clean end of the last process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, fsync, openat, statat};
use rustix::io::Errno;

use super::{LONGEST_WAIT, Result, Store, StoreError};
use act_fs::lock::{self, Kind};
use act_fs::{Dir, READ};

const NAME: &str = "act.db";
/// The files that SQLite puts beside the database.
const BESIDE: [&str; 3] = ["act.db-wal", INDEX, "act.db-journal"];
/// The index of the log. SQLite creates it anew, so it holds no changes.
const INDEX: &str = "act.db-shm";
/// A database that is being created, and the files that SQLite puts beside it.
const NEW: [&str; 4] = [".act.db.new", ".act.db.new-wal", ".act.db.new-shm", ".act.db.new-journal"];

/// "act1", by which `file` and `act` recognise the database.
const APPLICATION_ID: i32 = 0x6163_7431;

/// One step for each version. A released step never changes.
const STEPS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("proposals.sql"),
    include_str!("restarts.sql"),
    include_str!("beginnings.sql"),
    include_str!("run_ends.sql"),
    include_str!("evidence.sql"),
    include_str!("warm.sql"),
    include_str!("costs.sql"),
    include_str!("step_times.sql"),
    include_str!("starts.sql"),
    include_str!("worktrees.sql"),
];

const VERSION: i64 = STEPS.len() as i64;

impl Store {
    /// Opens the database in the directory `path`, which is open as `state`, and creates it when there is none.
    ///
    /// A process opens it once: SQLite's POSIX locks belong to the process, so closing a second handle releases them all.
    ///
    /// # Errors
    ///
    /// A database that is damaged, foreign or of a newer version is refused and left byte for byte as it is.
    pub fn open(state: &Dir, path: &Path) -> Result<Self> {
        let path = path.join(NAME);
        if !exists(state, &path)? {
            create(state, &path)?;
        }
        let failed = |error| StoreError::of(&path, error);
        let connection = connect(&path).map_err(failed)?;
        check_and_migrate(&connection, &path)?;
        checkpoint_on_close(&connection).map_err(failed)?;
        Ok(Self { connection: Mutex::new(connection), path })
    }

    /// Judges the database like [`Store::open`], without creating or migrating anything.
    ///
    /// # Errors
    ///
    /// The errors of [`Store::open`].
    pub fn inspect(state: &Dir, path: &Path) -> Result<()> {
        let path = path.join(NAME);
        if !exists(state, &path)? {
            return Ok(());
        }
        let failed = |error| StoreError::of(&path, error);
        let connection = connect(&path).map_err(failed)?;
        if check(&connection, &path)? == VERSION {
            has_our_tables(&connection, &path)?;
        }
        checkpoint_on_close(&connection).map_err(failed)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // A refused database stays as it is: closing it does not write the log into the file.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.busy_timeout(LONGEST_WAIT)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// Lets the last process that closes an accepted database write the log into it and remove the files beside it.
fn checkpoint_on_close(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(drop)
}

/// Checks the database, and migrates it when it has an older version.
fn check_and_migrate(connection: &Connection, path: &Path) -> Result<()> {
    if check(connection, path)? < VERSION {
        let migrated = connection
            .execute_batch("BEGIN IMMEDIATE")
            .and_then(|()| migrate(connection))
            .and_then(|()| connection.execute_batch("COMMIT"));
        migrated.map_err(|error| StoreError::of(path, error))?;
    }
    has_our_tables(connection, path)
}

fn has_our_tables(connection: &Connection, path: &Path) -> Result<()> {
    if is_ours(connection).map_err(|error| StoreError::of(path, error))? {
        return Ok(());
    }
    let reason = "its tables are not those of act".to_owned();
    Err(StoreError::Damaged { path: path.to_owned(), reason })
}

/// Returns the version of a database whose pages are all whole.
fn check(connection: &Connection, path: &Path) -> Result<i64> {
    let failed = |error| StoreError::of(path, error);
    if connection.is_readonly("main").map_err(failed)? {
        let reason = "it is write-protected".to_owned();
        return Err(StoreError::Unusable { path: path.to_owned(), reason });
    }
    // The header in the file may be older than the log, so SQLite is asked.
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    if version > VERSION {
        return Err(StoreError::Future { path: path.to_owned(), version, known: VERSION });
    }
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    if found != "ok" {
        return Err(StoreError::Damaged { path: path.to_owned(), reason: found });
    }
    Ok(version)
}

/// Creates the database under another name and renames it when it is complete, one process at a time: no process ever sees
/// a part of it. The next creation removes what a killed one left.
fn create(state: &Dir, path: &Path) -> Result<()> {
    let io = |error: io::Error| StoreError::io(path, error);
    let locked = state.reopen().map_err(io)?;
    if !lock::wait(&locked, Kind::Exclusive, LONGEST_WAIT).map_err(io)? {
        return Err(StoreError::Busy { path: path.to_owned() });
    }
    // Another process may have created it while this one waited for the lock.
    if exists(state, path)? {
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
    checkpoint_on_close(&connection)?;
    // The whole file is synced before it gets its name, and a part of it is never read. Syncing each transaction as well would
    // double the start of a first task.
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    migrate(&connection)?;
    connection.execute_batch("COMMIT")?;
    // The header of the file holds the mode, so it is in force for every later connection.
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, error)| error)
}

/// Brings the tables to the version of this program, within the transaction of the caller.
fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let from: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in STEPS.iter().skip(usize::try_from(from).unwrap_or_default()) {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "user_version", VERSION)
}

/// Returns whether the database has the tables and indexes of a new one and nothing else, no trigger for example.
fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    let fresh = Connection::open_in_memory()?;
    migrate(&fresh)?;
    Ok(shape(connection)? == shape(&fresh)?)
}

type Shape = Vec<(String, String, Option<String>)>;

fn shape(connection: &Connection) -> rusqlite::Result<Shape> {
    let mut all = connection.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY name")?;
    let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// Returns whether there is a database of `act`, judged by handle and without following a link. Any other kind of file
/// under its name is refused, and so are the changes of a database that is gone, which SQLite would play into a new one.
fn exists(state: &Dir, path: &Path) -> Result<bool> {
    let foreign = |what: &str| StoreError::Foreign { path: path.to_owned(), what: what.to_owned() };
    let found = kind(state, NAME).map_err(|errno| StoreError::io(path, errno))?;
    for beside in BESIDE {
        match kind(state, beside).map_err(|errno| StoreError::io(path, errno))? {
            None | Some((FileType::RegularFile, 0)) => {}
            Some((FileType::RegularFile, _)) if beside == INDEX || found.is_some() => {}
            Some((FileType::RegularFile, _)) => {
                let reason = format!("it is missing, and {beside} holds changes of it");
                return Err(StoreError::Damaged { path: path.to_owned(), reason });
            }
            Some((other, _)) => return Err(foreign(&format!("beside {}", word(other)))),
        }
    }
    match found {
        None => Ok(false),
        Some((FileType::RegularFile, _)) => check_header(state, path).map(|()| true),
        Some((other, _)) => Err(foreign(word(other))),
    }
}

/// Returns the type and size of the file `name`.
fn kind(state: &Dir, name: &str) -> std::result::Result<Option<(FileType, u64)>, Errno> {
    match statat(state, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            Ok(Some((FileType::from_raw_mode(stat.st_mode), size)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a special file",
    }
}

/// Checks the first 100 bytes of the file: SQLite's magic text, the application id and the version.
fn check_header(state: &Dir, path: &Path) -> Result<()> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    const USER_VERSION: usize = 60;
    const APPLICATION: usize = 68;
    let failed = |errno: Errno| StoreError::io(path, errno);
    let file: File = openat(state, NAME, READ, Mode::empty()).map_err(failed)?.into();
    if FileType::from_raw_mode(fstat(&file).map_err(failed)?.st_mode) != FileType::RegularFile {
        return Err(StoreError::Foreign { path: path.to_owned(), what: "no regular file".into() });
    }
    let damaged =
        |reason: &str| StoreError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let mut bytes = [0; 100];
    if let Err(error) = file.read_exact_at(&mut bytes, 0) {
        return Err(match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
            _ => StoreError::io(path, error),
        });
    }
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        i64::from(i32::from_be_bytes(bytes.unwrap_or_default()))
    };
    if !bytes.starts_with(MAGIC) {
        return Err(damaged("it is not an SQLite database"));
    }
    if number(APPLICATION) != i64::from(APPLICATION_ID) {
        let what = "the SQLite database of another program".to_owned();
        return Err(StoreError::Foreign { path: path.to_owned(), what });
    }
    match number(USER_VERSION) {
        version if version > VERSION => {
            Err(StoreError::Future { path: path.to_owned(), version, known: VERSION })
        }
        version if version < 1 => Err(damaged("it has no version")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use std::time::Instant;

    use super::*;

    fn state(dir: &Path) -> Dir {
        Dir::open(dir).unwrap()
    }

    fn open(dir: &Path) -> Result<Store> {
        Store::open(&state(dir), dir)
    }

    /// A database with a table's worth of content, closed.
    fn filled() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        store.connection().execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO runs SELECT 'run_' || i, NULL, 'r', 'PASS', hex(randomblob(60)), NULL, 1, '', '', '', NULL, 0 FROM n",
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

    /// Makes a database of a version before the first, with some content.
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
        check_and_migrate(&connection, &dir.path().join(NAME)).unwrap();
        assert!(is_ours(&connection).unwrap());
        let version = |connection: &Connection| -> i64 {
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
        };
        assert_eq!(version(&connection), VERSION);

        // The table `runs` exists already, so the migration fails.
        let dir = tempfile::tempdir().unwrap();
        let connection = older(dir.path(), "CREATE TABLE runs (x)");
        assert!(check_and_migrate(&connection, &dir.path().join(NAME)).is_err());
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
        // The index of the log holds no changes, so it is ignored.
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
        // A copy as a crash would leave it.
        for name in [NAME, "act.db-wal"] {
            fs::copy(dir.path().join(name), dir.path().join(format!("{name}.kept"))).unwrap();
        }
        drop(store);
        fs::rename(dir.path().join("act.db.kept"), dir.path().join(NAME)).unwrap();
        assert_eq!(count(&open(dir.path()).unwrap()), 400);
    }

    // STORE-7: runs of a version that did not store the hash of their end stay, without one.
    #[test]
    fn a_run_of_an_earlier_version_has_no_end_that_could_be_compared() {
        let connection = Connection::open_in_memory().unwrap();
        for step in &STEPS[..5] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 5).unwrap();
        let run = "INSERT INTO runs VALUES ('run_a', NULL, 'r', 'PASS', '', '', 1, '', '', '')";
        connection.execute_batch(run).unwrap();
        migrate(&connection).unwrap();
        assert!(is_ours(&connection).unwrap());
        let kept = "SELECT status, end_hash FROM runs";
        let kept: (String, Option<String>) =
            connection.query_row(kept, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(kept, ("PASS".to_owned(), None));
    }
}
