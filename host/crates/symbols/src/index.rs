//! A cache of outlines, each beside its brief. It only saves time: without it, or when it is damaged, every file is read
//! and parsed.
//!
//! The cache is one SQLite file in a private directory of the user, never in the repository. A file is known again by
//! its [`Stamp`], as in git's index, without being read. When the stamp is unknown, for instance after a checkout, the
//! file is known by a digest of its content and of the rules, without being parsed. Both are compared before an entry
//! is used, so no entry can be out of date.
//!
//! Several processes may use the file at once. Each holds a shared lock on a file beside it; a damaged cache is removed
//! only by a process that gets the lock for itself, so no process loses a file that it has open.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use act_fs::lock::{self, Kind};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Statement, params};
use rustix::fs::{OFlags, Stat};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::{Brief, Language, Outline};

/// Part of every key: raised when rules or grammars change.
const RULES: &str = "act index 2";
/// The layout of the tables, stored as SQLite's `user_version`. A file with another layout is made anew.
const LAYOUT: i64 = 1;
const FILE: &str = "index.sqlite";
const LOCK: &str = "index.lock";
/// Files that earlier versions wrote.
const FORMER: &str = "outlines.sqlite";
/// Maximum number of files, enough for three repositories of 100,000. Beyond it, the ones that were not used for the
/// longest time are removed.
const MAX_FILES: i64 = 300_000;
/// Maximum number of bytes of the cache: 300,000 files of the size that is usual for source code.
const MAX_BYTES: i64 = 1 << 30;
/// Number of files that one process stores between two checks of these maxima.
const BETWEEN_CHECKS: usize = 4_096;
/// Files are removed in portions of at least this share of all, so that it is seldom done.
const SHARE_REMOVED: i64 = 16;
/// Maximum number of bytes of one stored value.
const LARGEST: usize = 4 << 20;
/// Maximum number of files whose results wait because another process writes.
const MAX_WAITING: usize = 4_096;
/// Time that is waited while another process writes. A write takes about a millisecond.
const PATIENCE: Duration = Duration::from_millis(500);
/// A file that was changed less than this before it was read may be changed once more without another time stamp,
/// because some file systems count time in steps of two seconds. It is read again the next time, as git does it with
/// files that are as young as its index.
const RACY: i64 = 2_000_000_000;
/// Number of files from which on a second thread looks up half of them: less than it takes to begin a thread is not shared.
const SHARED: usize = 64;
/// Memory for the pages of one connection, in KiB. Files are looked up about in the order in which they were stored.
const PAGES: i64 = 1_024;
/// Whether two threads can work at a time. It is determined once, because the system reads a dozen files to count its
/// processors.
static HAS_TWO_PROCESSORS: LazyLock<bool> =
    LazyLock::new(|| std::thread::available_parallelism().is_ok_and(|count| count.get() > 1));

/// The state of a file by which git tells that it is unchanged: device, inode, size, and the times of the last change of
/// its content and of its metadata, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: i64,
    inode: i64,
    size: i64,
    modified: i64,
    changed: i64,
}

/// The size in a stamp that no file has. The file is known by its content alone.
const UNKNOWN: i64 = -1;

impl Stamp {
    /// Returns the stamp of an open file, which is to be taken before the file is read.
    pub fn of(stat: &Stat) -> Self {
        let nanoseconds = |seconds: i64, rest: u64| {
            let rest = i64::try_from(rest).ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(rest)
        };
        let modified = nanoseconds(stat.st_mtime, stat.st_mtime_nsec);
        let changed = nanoseconds(stat.st_ctime, stat.st_ctime_nsec);
        let (size, modified, changed) = match (modified, changed) {
            (Some(modified), Some(changed)) => (stat.st_size, modified, changed),
            // Times that no clock shows prove nothing.
            _ => (UNKNOWN, 0, 0),
        };
        let (device, inode) = (stat.st_dev.cast_signed(), stat.st_ino.cast_signed());
        Self { device, inode, size, modified, changed }
    }

    /// Returns the stamp for storing: one that matches no file if the file could change again without another stamp,
    /// after it was read at `now`.
    fn at(self, now: SystemTime) -> Self {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let now = i64::try_from(now).unwrap_or_default();
        let youngest = self.modified.max(self.changed);
        match youngest.checked_add(RACY) {
            Some(settled) if settled < now => self,
            _ => Self { size: UNKNOWN, modified: 0, changed: 0, ..self },
        }
    }

    fn is_known(&self) -> bool {
        self.size != UNKNOWN
    }
}

/// A digest of a file's content, its language, its last name and the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Computes the key. Only the last name of `path` counts, as for the outline itself.
    pub fn of(language: Language, path: &str, source: &[u8]) -> Self {
        let digest = Sha256::new()
            .chain_update(RULES)
            .chain_update([0, language as u8])
            .chain_update(last_name(path))
            .chain_update([0])
            .chain_update(source)
            .finalize();
        Self(digest.into())
    }
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A file to look up by its stamp. One inode may have several names, and the name decides about language and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    stamp: Stamp,
    name: i64,
}

impl Place {
    pub fn new(stamp: Stamp, path: &str) -> Self {
        let digest = Sha256::new().chain_update(RULES).chain_update([0]);
        let digest: [u8; 32] = digest.chain_update(last_name(path)).finalize().into();
        let name = digest.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes));
        Self { stamp, name }
    }
}

/// A result to store.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// `None` for a file that has no state in the file system.
    pub place: Option<Place>,
    /// The time before the file's stamp was taken.
    pub read_at: SystemTime,
    pub key: Key,
    pub outline: Outline,
}

/// The cache.
pub struct Index {
    dir: PathBuf,
    state: Mutex<State>,
    /// A thread of this process looks at the files that are not stored yet.
    in_background: AtomicBool,
}

enum State {
    Closed,
    Open(Box<Open>),
    /// The cache cannot be used; this process does not try again.
    Broken,
}

struct Open {
    connection: Connection,
    /// Looks up the second half of many files at the same time.
    second: Option<Connection>,
    /// Holds the shared lock.
    lock: File,
    /// Results that could not be stored because another process was writing.
    waiting: Vec<NewEntry>,
    /// Number of files stored since the maxima were checked; `None` before the first check.
    unchecked: Option<usize>,
}

/// Why the cache could not be used.
enum Failure {
    Sql(rusqlite::Error),
    /// A stored value is not what was stored.
    Damaged,
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Failure {
    /// Returns whether the cache may be used again later: another process writes, or the disk is full.
    fn is_passing(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, ReadOnly};
        let Self::Sql(error) = self else { return false };
        let code = error.sqlite_error_code();
        matches!(code, Some(DatabaseBusy | DatabaseLocked | DiskFull | ReadOnly))
    }
}

/// A stored file. The parts of it that a caller does not ask for are not decoded.
pub struct Stored<'r> {
    row: &'r Row<'r>,
    /// The number that the checksums of the row's values begin with.
    seed: u64,
    outline: &'r dyn Fn(i64, u64) -> Option<Outline>,
    is_damaged: &'r Cell<bool>,
}

impl Stored<'_> {
    /// Returns the brief of the outline.
    pub fn brief(&self) -> Option<Brief> {
        let bytes = self.row.get_ref(0).ok().and_then(|value| value.as_blob().ok());
        let brief = bytes.and_then(|bytes| decoded::<Brief>(bytes, self.seed));
        self.whole(brief.filter(Brief::is_bounded))
    }

    /// Returns the outline.
    pub fn outline(&self) -> Option<Outline> {
        let found = self.row.get(1).ok().and_then(|id| (self.outline)(id, self.seed));
        self.whole(found.filter(Outline::is_bounded))
    }

    fn whole<T>(&self, found: Option<T>) -> Option<T> {
        self.is_damaged.set(self.is_damaged.get() || found.is_none());
        found
    }
}

impl Index {
    /// Returns the cache in `dir`. When the first file is looked up, `dir` must exist and be private to the user.
    pub fn new(dir: &Path) -> Self {
        let (state, in_background) = (Mutex::new(State::Closed), AtomicBool::new(false));
        Self { dir: dir.to_owned(), state, in_background }
    }

    /// Returns whether the caller may index in the background. At most one thread of a process does it at a time; it calls
    /// [`Index::end_background`] at its end.
    pub fn begin_background(&self) -> bool {
        !self.in_background.swap(true, Ordering::AcqRel)
    }

    pub fn end_background(&self) {
        self.in_background.store(false, Ordering::Release);
    }

    /// Returns what `take` makes of the stored files with these stamps, in their order, and `None` for unknown ones.
    pub fn by_place<T: Send>(
        &self,
        places: &[Option<Place>],
        take: impl Fn(&Stored<'_>) -> Option<T> + Sync,
    ) -> Vec<Option<T>> {
        let find = "SELECT brief, id, used, device, inode, name, size, modified, changed, content \
                    FROM file WHERE device = ?1 AND inode = ?2 AND name = ?3 AND size = ?4 AND modified = ?5 AND changed = ?6";
        self.look_up(
            places,
            take,
            |find, row_of, place| {
                let Some(Place { stamp, name }) = place.as_ref().filter(|at| at.stamp.is_known())
                else {
                    return Ok(None);
                };
                let Stamp { device, inode, size, modified, changed } = stamp;
                let wanted = params![device, inode, name, size, modified, changed];
                find.query_row(wanted, row_of).optional()
            },
            find,
        )
    }

    /// Returns what `take` makes of the stored files with this content, in the order of `keys`.
    pub fn by_content<T: Send>(
        &self,
        keys: &[Key],
        take: impl Fn(&Stored<'_>) -> Option<T> + Sync,
    ) -> Vec<Option<T>> {
        let find = "SELECT brief, id, used, device, inode, name, size, modified, changed, content \
                    FROM file WHERE content = ?1 LIMIT 1";
        self.look_up(
            keys,
            take,
            |find, row_of, Key(key)| find.query_row(params![&key[..]], row_of).optional(),
            find,
        )
    }

    fn look_up<W: Sync, T: Send>(
        &self,
        wanted: &[W],
        take: impl Fn(&Stored<'_>) -> Option<T> + Sync,
        query: impl Fn(
            &mut Statement<'_>,
            &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<Option<T>>,
            &W,
        ) -> rusqlite::Result<Option<Option<T>>>
        + Sync,
        find: &str,
    ) -> Vec<Option<T>> {
        let found = self.with(|open| {
            if open.second.is_none() && wanted.len() >= SHARED && *HAS_TWO_PROCESSORS {
                open.second = try_connect(&self.dir).ok();
            }
            let shared = open.second.as_mut().filter(|_| wanted.len() >= SHARED);
            let (first, rest) =
                wanted.split_at(if shared.is_some() { wanted.len() / 2 } else { wanted.len() });
            let search = |connection: &Connection, wanted: &[W]| {
                found_in(connection, wanted, &take, &query, find)
            };
            let connection = &open.connection;
            let (first, rest) = match shared {
                None => (search(connection, first), None),
                Some(second) => std::thread::scope(|scope| {
                    let search = &search;
                    let rest = scope.spawn(move || search(second, rest));
                    (search(connection, first), Some(rest.join()))
                }),
            };
            let (mut found, mut old) = first?;
            if let Some(rest) = rest {
                let (more, older) = rest.unwrap_or(Err(Failure::Damaged))?;
                found.extend(more);
                old.extend(older);
            }
            // A failure, for instance because another process writes, only lets these rows look older than they are.
            if !old.is_empty() {
                let _ = refresh(connection, &old);
            }
            Ok(found)
        });
        let mut found = found.unwrap_or_default();
        found.resize_with(wanted.len(), || None);
        found
    }

    /// Stores results. A failure is not reported, because the cache only saves time.
    pub fn store(&self, entries: Vec<NewEntry>) {
        if entries.is_empty() {
            return;
        }
        self.with(|open| {
            open.waiting.extend(entries);
            match insert(&open.connection, &open.waiting) {
                Ok(()) => {}
                Err(failure) if failure.is_passing() && open.waiting.len() < MAX_WAITING => {
                    return Ok(());
                }
                Err(failure) => {
                    open.waiting.clear();
                    return Err(failure);
                }
            }
            let stored = open.waiting.len();
            open.waiting = vec![];
            let unchecked = open.unchecked.map_or(BETWEEN_CHECKS, |before| before + stored);
            open.unchecked = Some(unchecked);
            if unchecked >= BETWEEN_CHECKS {
                open.unchecked = Some(0);
                remove_oldest(&open.connection, MAX_FILES, MAX_BYTES)?;
            }
            Ok(())
        });
    }

    /// Runs `act` on the open cache. Returns `None` without one. A damaged cache is removed and made anew once.
    fn with<T>(&self, act: impl FnOnce(&mut Open) -> Result<T, Failure>) -> Option<T> {
        let mut state = self.state.lock().ok()?;
        if matches!(*state, State::Closed) {
            *state = open(&self.dir).map_or(State::Broken, |open| State::Open(Box::new(open)));
        }
        let State::Open(open) = &mut *state else { return None };
        match act(open) {
            Ok(done) => Some(done),
            Err(failure) if failure.is_passing() => None,
            Err(_) => {
                let State::Open(open) = std::mem::replace(&mut *state, State::Broken) else {
                    return None;
                };
                let Open { connection, second, lock, .. } = *open;
                drop((connection, second));
                if let Some(open) = made_anew(&self.dir, lock) {
                    *state = State::Open(Box::new(open));
                }
                None
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        if let Ok(State::Open(open)) = self.state.get_mut()
            && !open.waiting.is_empty()
        {
            let _ = insert(&open.connection, &open.waiting);
        }
    }
}

/// What was found for each file, and the rows that were not used for a long time.
type FoundRows<T> = (Vec<Option<T>>, Vec<i64>);

/// Returns what one connection finds, in the order of `wanted`.
fn found_in<W, T>(
    connection: &Connection,
    wanted: &[W],
    take: &impl Fn(&Stored<'_>) -> Option<T>,
    query: &impl Fn(
        &mut Statement<'_>,
        &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<Option<T>>,
        &W,
    ) -> rusqlite::Result<Option<Option<T>>>,
    find: &str,
) -> Result<FoundRows<T>, Failure> {
    // Without a transaction each row would take and release a lock of its own.
    let _transaction = connection.unchecked_transaction()?;
    let last = last_used(connection)?;
    let outline = "SELECT symbols FROM outline WHERE file = ?1";
    let outline = RefCell::new(connection.prepare(outline)?);
    let outline = |id: i64, seed: u64| {
        let mut find = outline.try_borrow_mut().ok()?;
        let outline = |row: &Row<'_>| {
            let bytes = row.get_ref(0)?.as_blob().ok();
            Ok(bytes.and_then(|bytes| decoded(bytes, seed)))
        };
        find.query_row([id], outline).ok().flatten()
    };
    let mut find = connection.prepare(find)?;
    let is_damaged = Cell::new(false);
    let mut old = vec![];
    let found = wanted.iter().map(|wanted| {
        let mut row_of = |row: &Row<'_>| {
            let used: i64 = row.get(2)?;
            if used <= last.saturating_sub(MAX_FILES / 2) {
                old.push(row.get::<_, i64>(1)?);
            }
            let stamp =
                [3, 4, 5, 6, 7, 8].map(|column| row.get::<_, i64>(column).unwrap_or_default());
            let seed = seed(stamp, row.get_ref(9)?.as_blob().unwrap_or_default());
            Ok(take(&Stored { row, seed, outline: &outline, is_damaged: &is_damaged }))
        };
        query(&mut find, &mut row_of, wanted).map(Option::flatten)
    });
    let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    match is_damaged.get() {
        true => Err(Failure::Damaged),
        false => Ok((found, old)),
    }
}

/// Returns the largest number of a use. No cache reaches half of all numbers by counting: such a number is damage, and the next
/// ones could not be counted any more.
fn last_used(connection: &Connection) -> Result<i64, Failure> {
    let mut find = connection.prepare("SELECT ifnull(max(used), 0) FROM file")?;
    let last = find.query_row([], |row| row.get(0))?;
    if (0..i64::MAX / 2).contains(&last) { Ok(last) } else { Err(Failure::Damaged) }
}

/// Gives rows that were used the newest numbers, so that they are removed last. It is done only for rows that lie behind
/// half of all, so a run over unchanged files seldom writes, and a row is removed only after 150,000 other uses.
fn refresh(connection: &Connection, old: &[i64]) -> Result<(), Failure> {
    let transaction = connection.unchecked_transaction()?;
    let last = last_used(connection)?;
    let mut update = connection.prepare("UPDATE file SET used = ?2 WHERE id = ?1")?;
    for (id, new) in old.iter().zip(last.saturating_add(1)..) {
        update.execute(params![id, new])?;
    }
    drop(update);
    transaction.commit()?;
    Ok(())
}

fn insert(connection: &Connection, entries: &[NewEntry]) -> Result<(), Failure> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let inserted = insert_all(connection, entries);
    let end = if inserted.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.execute_batch(end)?;
    inserted
}

fn insert_all(connection: &Connection, entries: &[NewEntry]) -> Result<(), Failure> {
    let mut put = connection.prepare(
        "INSERT INTO file (device, inode, name, size, modified, changed, content, used, brief)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (device, inode, name) DO UPDATE SET size = ?4, modified = ?5, changed = ?6,
             content = ?7, used = ?8, brief = ?9
         RETURNING id",
    )?;
    let mut put_outline =
        connection.prepare("INSERT OR REPLACE INTO outline (file, symbols) VALUES (?1, ?2)")?;
    let mut last = last_used(connection)?;
    for NewEntry { place, read_at, key: Key(key), outline } in entries {
        // A file without a place gets one that no file system has, made of its content.
        let no_place = || Place {
            stamp: Stamp {
                device: -1,
                inode: first_number(key),
                size: UNKNOWN,
                modified: 0,
                changed: 0,
            },
            name: 0,
        };
        let Place { stamp, name } = place.unwrap_or_else(no_place);
        let Stamp { device, inode, size, modified, changed } = stamp.at(*read_at);
        let seed = seed([device, inode, name, size, modified, changed], key);
        let values = (sealed(&Brief::of(outline), seed), sealed(outline, seed));
        let (Some(brief), Some(outline)) = values else { continue };
        last = last.saturating_add(1);
        let values = params![device, inode, name, size, modified, changed, &key[..], last, brief];
        let id: i64 = put.query_row(values, |row| row.get(0))?;
        put_outline.execute(params![id, outline])?;
    }
    Ok(())
}

/// Removes the files that were not used for the longest time, down to the maxima, and gives their room back.
fn remove_oldest(connection: &Connection, max_files: i64, max_bytes: i64) -> Result<(), Failure> {
    let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let files = number("SELECT count(*) FROM file")?;
    let pages = number("PRAGMA page_count")?.saturating_sub(number("PRAGMA freelist_count")?);
    let bytes = pages.saturating_mul(number("PRAGMA page_size")?);
    if files <= max_files && bytes <= max_bytes {
        return Ok(());
    }
    let share = files / SHARE_REMOVED + 1;
    let too_many = files.saturating_sub(max_files).max(0);
    let too_large = files.saturating_mul(bytes.saturating_sub(max_bytes).max(0)) / bytes.max(1);
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let removed = remove_first(connection, too_many.max(too_large).saturating_add(share));
    connection.execute_batch(if removed.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    removed?;
    // The statement returns a row for each page.
    let mut compact = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut pages = compact.query([])?;
    while pages.next()?.is_some() {}
    Ok(())
}

fn remove_first(connection: &Connection, count: i64) -> rusqlite::Result<()> {
    let mut oldest = connection.prepare("SELECT id FROM file ORDER BY used LIMIT ?1")?;
    let oldest = oldest.query_map([count], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
    let mut remove_outline = connection.prepare("DELETE FROM outline WHERE file = ?1")?;
    let mut remove_file = connection.prepare("DELETE FROM file WHERE id = ?1")?;
    for id in oldest {
        remove_outline.execute([id])?;
        remove_file.execute([id])?;
    }
    Ok(())
}

/// Returns a value in the form in which it is stored.
fn sealed(value: &impl Serialize, seed: u64) -> Option<Vec<u8>> {
    let bytes = postcard::to_allocvec(value).ok()?;
    (bytes.len() < LARGEST).then(|| with_checksum(bytes, seed))
}

fn decoded<T: DeserializeOwned>(bytes: &[u8], seed: u64) -> Option<T> {
    postcard::from_bytes(unsealed(bytes, seed)?).ok()
}

fn with_checksum(mut bytes: Vec<u8>, seed: u64) -> Vec<u8> {
    bytes.extend(checksum(&bytes, seed).to_le_bytes());
    bytes
}

/// Returns the value without its checksum, if the checksum is right.
fn unsealed(bytes: &[u8], seed: u64) -> Option<&[u8]> {
    let (value, sum) = bytes.split_last_chunk::<8>()?;
    let is_whole = || checksum(value, seed) == u64::from_le_bytes(*sum);
    (bytes.len() <= LARGEST + 8 && is_whole()).then_some(value)
}

/// The seed of a row's checksums. It ties the values to the state and the content of the file, so that a damaged index of
/// the database, which leads to another row, is found as well.
fn seed(place: [i64; 6], content: &[u8]) -> u64 {
    checksum(content, place.iter().fold(0, |sum, part| mix(sum, part.cast_unsigned())))
}

/// Finds accidental damage. It is no protection from attackers: whoever can write to the directory can do anything as its
/// user.
fn checksum(bytes: &[u8], seed: u64) -> u64 {
    let (whole, rest) = bytes.as_chunks::<8>();
    let start = mix(seed, bytes.len() as u64);
    let sum = whole.iter().fold(start, |sum, part| mix(sum, u64::from_le_bytes(*part)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

fn mix(sum: u64, part: u64) -> u64 {
    (sum.rotate_left(5) ^ part).wrapping_mul(0x517c_c1b7_2722_0a95)
}

fn first_number(key: &[u8; 32]) -> i64 {
    key.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// The names of a database and of the files that SQLite stores beside it.
fn files_of(name: &str) -> [String; 3] {
    ["", "-wal", "-shm"].map(|suffix| format!("{name}{suffix}"))
}

/// Removes the cache and makes it anew, if no other process has it open. A new database must not find the log of the old
/// one.
fn made_anew(dir: &Path, lock: File) -> Option<Open> {
    drop(lock);
    let lock = lock_file(dir)?;
    lock::try_lock(&lock, Kind::Exclusive).ok().filter(|taken| *taken)?;
    for name in files_of(FILE) {
        let _ = std::fs::remove_file(dir.join(name));
    }
    let connection = try_connect(dir).ok()?;
    lock::try_lock(&lock, Kind::Shared).ok().filter(|taken| *taken)?;
    Some(Open { connection, second: None, lock, waiting: vec![], unchecked: None })
}

/// Returns whether only the user can write to the directory or list it.
fn is_own(dir: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(dir)
        .is_ok_and(|dir| dir.is_dir() && dir.uid() == user && dir.mode() & 0o077 == 0)
}

/// Opens a file of the user that no other user can read or write, and creates it if it is missing.
fn own_file(path: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
        .ok()?;
    let found = file.metadata().ok()?;
    let is_own = found.is_file()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o077 == 0
        && found.nlink() == 1;
    is_own.then_some(file)
}

fn lock_file(dir: &Path) -> Option<File> {
    own_file(&dir.join(LOCK))
}

fn open(dir: &Path) -> Option<Open> {
    if !is_own(dir) {
        return None;
    }
    // One process at a time creates the tables.
    let turn = File::open(dir).ok()?;
    lock::wait(&turn, Kind::Exclusive, PATIENCE).ok().filter(|taken| *taken)?;
    let lock = lock_file(dir)?;
    // Another process holds the lock exclusively only while it removes a damaged cache.
    lock::wait(&lock, Kind::Shared, PATIENCE).ok().filter(|taken| *taken)?;
    for name in files_of(FORMER) {
        let _ = std::fs::remove_file(dir.join(name));
    }
    match try_connect(dir) {
        Ok(connection) => {
            Some(Open { connection, second: None, lock, waiting: vec![], unchecked: None })
        }
        Err(failure) if failure.is_passing() => None,
        Err(_) => made_anew(dir, lock),
    }
}

fn try_connect(dir: &Path) -> Result<Connection, Failure> {
    let path = dir.join(FILE);
    // A file that SQLite creates could be read by others.
    let file = own_file(&path).ok_or(Failure::Damaged)?;
    let bytes =
        file.metadata().map_or(i64::MAX, |found| i64::try_from(found.size()).unwrap_or(i64::MAX));
    // The maxima are checked from time to time, so the file may be somewhat larger.
    if bytes > 2 * MAX_BYTES {
        return Err(Failure::Damaged);
    }
    drop(file);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    let layout = |connection: &Connection| {
        connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
    };
    if layout(&connection)? != LAYOUT {
        create(&connection)?;
    }
    // The only objects of the schema are tables and indexes: no trigger or view of somebody else runs.
    let others = "SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index')";
    let others: i64 = connection.query_row(others, [], |row| row.get(0))?;
    if layout(&connection)? != LAYOUT || others > 0 {
        return Err(Failure::Damaged);
    }
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -PAGES)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
    Ok(connection)
}

/// Creates the tables in an empty file.
fn create(connection: &Connection) -> Result<(), Failure> {
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if objects == 0 {
        // Both are settings of an empty file. Removed files give their pages back.
        connection.execute_batch("PRAGMA page_size = 8192; PRAGMA auto_vacuum = INCREMENTAL")?;
    }
    // Results that are lost in a crash are computed again.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         CREATE TABLE IF NOT EXISTS file (
             id INTEGER PRIMARY KEY,
             device INTEGER NOT NULL, inode INTEGER NOT NULL, name INTEGER NOT NULL,
             size INTEGER NOT NULL, modified INTEGER NOT NULL, changed INTEGER NOT NULL,
             content BLOB NOT NULL, used INTEGER NOT NULL,
             brief BLOB NOT NULL
         ) STRICT;
         CREATE UNIQUE INDEX IF NOT EXISTS file_place ON file (device, inode, name);
         CREATE INDEX IF NOT EXISTS file_content ON file (content);
         CREATE INDEX IF NOT EXISTS file_used ON file (used);
         CREATE TABLE IF NOT EXISTS outline (file INTEGER PRIMARY KEY, symbols BLOB NOT NULL) STRICT;
         PRAGMA user_version = {LAYOUT};
         COMMIT"
    ))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Barrier;

    use super::*;
    use crate::outline;

    fn parsed(source: &str) -> Outline {
        outline(Language::Rust, "a.rs", source.as_bytes(), &|| false).unwrap().outline
    }

    fn own() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    fn stamp(inode: i64) -> Stamp {
        Stamp { device: 1, inode, size: 10, modified: 5, changed: 6 }
    }

    fn key(source: &str) -> Key {
        Key::of(Language::Rust, "src/a.rs", source.as_bytes())
    }

    fn entry(inode: i64, source: &str) -> NewEntry {
        let place = Some(Place::new(stamp(inode), "src/a.rs"));
        let (read_at, outline) = (SystemTime::now(), parsed(source));
        NewEntry { place, read_at, key: key(source), outline }
    }

    fn place(index: &Index, stamp: Stamp, path: &str) -> Option<Outline> {
        index
            .by_place(&[Some(Place::new(stamp, path))], |stored: &Stored<'_>| stored.outline())
            .remove(0)
    }

    fn content(index: &Index, source: &str) -> Option<Outline> {
        index.by_content(&[key(source)], |stored: &Stored<'_>| stored.outline()).remove(0)
    }

    fn database(dir: &tempfile::TempDir) -> Connection {
        Connection::open(dir.path().join(FILE)).unwrap()
    }

    fn count(connection: &Connection, query: &str) -> i64 {
        connection.query_row(query, [], |row| row.get(0)).unwrap()
    }

    // SYMBOLS-5
    #[test]
    fn a_file_is_known_by_its_state_and_by_its_content() {
        let dir = own();
        let (a, b) = ("fn a() {}\n", "fn b() {}\n");
        Index::new(dir.path()).store(vec![entry(1, a)]);
        let index = Index::new(dir.path());
        assert_eq!(place(&index, stamp(1), "other/a.rs"), Some(parsed(a)));
        // A hard link may have a name that means something else.
        assert_eq!(place(&index, stamp(1), "src/b.rs"), None);
        let others = [
            Stamp { device: 2, ..stamp(1) },
            stamp(2),
            Stamp { size: 11, ..stamp(1) },
            Stamp { modified: 6, ..stamp(1) },
            Stamp { changed: 7, ..stamp(1) },
        ];
        for other in others {
            assert_eq!(place(&index, other, "src/a.rs"), None, "{other:?}");
        }
        assert_eq!((content(&index, a), content(&index, b)), (Some(parsed(a)), None));
        let of = |language, path| Key::of(language, path, a.as_bytes());
        assert_eq!(key(a), of(Language::Rust, "other/a.rs"));
        assert_ne!(key(a), of(Language::Rust, "src/b.rs"));
        assert_ne!(key(a), of(Language::C, "src/a.rs"));
    }

    // SYMBOLS-5
    #[test]
    fn a_changed_file_takes_the_place_of_the_old_one() {
        let dir = own();
        let index = Index::new(dir.path());
        index.store(vec![entry(1, "fn a() {}\n")]);
        let mut changed = entry(1, "fn b() {}\n");
        let later = Stamp { modified: 7, changed: 8, ..stamp(1) };
        changed.place = Some(Place::new(later, "src/a.rs"));
        index.store(vec![changed]);
        assert_eq!(place(&index, later, "src/a.rs"), Some(parsed("fn b() {}\n")));
        assert_eq!(place(&index, stamp(1), "src/a.rs"), None);
        drop(index);
        let database = database(&dir);
        assert_eq!(count(&database, "SELECT count(*) FROM file"), 1);
        assert_eq!(count(&database, "SELECT count(*) FROM outline"), 1);
    }

    // SYMBOLS-5
    #[test]
    fn a_file_that_changed_in_the_second_in_which_it_was_read_is_read_again() {
        let dir = own();
        let path = dir.path().join("a.rs");
        let index = Index::new(dir.path());
        let look = || Place::new(Stamp::of(&rustix::fs::stat(&path).unwrap()), "a.rs");
        for (before, after) in [("fn a() {}\n", "fn b() {}\n"), ("fn c() {}\n", "fn d() {}\n")] {
            std::fs::write(&path, before).unwrap();
            let (read_at, at) = (SystemTime::now(), look());
            let new = NewEntry { place: Some(at), ..entry(1, before) };
            index.store(vec![NewEntry { read_at, ..new.clone() }]);
            // The same size, and on a coarse clock the same times.
            std::fs::write(&path, after).unwrap();
            assert_eq!(index.by_place(&[Some(at)], |stored: &Stored<'_>| stored.outline()), [None]);
            assert_eq!(
                index.by_place(&[Some(look())], |stored: &Stored<'_>| stored.outline()),
                [None]
            );
            // It is known by its content all the same, and by its state as soon as that is old enough.
            assert_eq!(content(&index, before), Some(parsed(before)));
            let later = read_at + Duration::from_secs(3);
            index.store(vec![NewEntry { read_at: later, ..new }]);
            assert_eq!(
                index.by_place(&[Some(at)], |stored: &Stored<'_>| stored.outline()),
                [Some(parsed(before))]
            );
        }
    }

    #[test]
    fn a_time_that_no_clock_shows_proves_nothing() {
        let now = SystemTime::now();
        let future = Stamp { modified: i64::MAX, ..stamp(1) };
        assert!(stamp(1).at(now).is_known());
        assert!(!future.at(now).is_known() && !stamp(1).at(UNIX_EPOCH).is_known());
        let dir = own();
        let index = Index::new(dir.path());
        let unknown = Stamp { size: UNKNOWN, ..stamp(1) };
        let new =
            NewEntry { place: Some(Place::new(unknown, "src/a.rs")), ..entry(1, "fn a() {}\n") };
        index.store(vec![new]);
        assert_eq!(place(&index, unknown, "src/a.rs"), None);
    }

    // SYMBOLS-5
    #[test]
    fn the_files_that_were_not_used_for_the_longest_time_are_removed_and_their_room_is_given_back()
    {
        let dir = own();
        let source =
            |n: i64| format!("fn f{n}() {{}}\n{}", format!("fn g{n}() {{}}\n").repeat(200));
        let index = Index::new(dir.path());
        index.store((0..64).map(|n| entry(n, &source(n))).collect());
        drop(index);
        let database = database(&dir);
        // The test raises the numbers as if that many files had been stored since.
        let later = "UPDATE file SET used = used + ?1 WHERE inode >= 32";
        database.execute(later, [MAX_FILES]).unwrap();
        let index = Index::new(dir.path());
        for used in 0..8 {
            assert!(place(&index, stamp(used), "src/a.rs").is_some());
        }
        drop(index);
        let pages = count(&database, "PRAGMA page_count");
        remove_oldest(&database, 40, MAX_BYTES).ok().unwrap();
        let left = "SELECT group_concat(inode) FROM (SELECT inode FROM file ORDER BY inode)";
        let left: String = database.query_row(left, [], |row| row.get(0)).unwrap();
        let expected: Vec<_> = (0..8).chain(37..64).map(|n: i64| n.to_string()).collect();
        assert_eq!(left, expected.join(","));
        assert_eq!(count(&database, "SELECT count(*) FROM outline"), 35);
        assert!(count(&database, "PRAGMA page_count") < pages * 3 / 4);
        assert_eq!(count(&database, "PRAGMA freelist_count"), 0);
        remove_oldest(&database, 40, 1).ok().unwrap();
        assert_eq!(count(&database, "SELECT count(*) FROM file"), 0);
    }

    // SYMBOLS-5
    #[test]
    fn a_damaged_index_is_thrown_away_and_made_again() {
        let text = "fn a() {}\n";
        for bytes in [&b"no database at all, but long enough to look like one".repeat(9)[..], b"x"]
        {
            let dir = own();
            own_file(&dir.path().join(FILE)).unwrap();
            std::fs::write(dir.path().join(FILE), bytes).unwrap();
            let index = Index::new(dir.path());
            assert_eq!(content(&index, text), None);
            index.store(vec![entry(1, text)]);
            assert_eq!(content(&index, text), Some(parsed(text)));
        }
    }

    // SYMBOLS-5
    #[test]
    fn no_byte_of_the_index_can_be_changed_into_another_answer_or_a_panic() {
        let dir = own();
        let text = |n: i64| format!("use a::b;\nfn f{n}() {{}}\nstruct Price{n};\n");
        let index = Index::new(dir.path());
        index.store((0..20).map(|n| entry(n, &text(n))).collect());
        drop(index);
        let whole = std::fs::read(dir.path().join(FILE)).unwrap();
        let mut numbers = 0x9e37_79b9_u64;
        let mut number = |below: usize| {
            numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(numbers >> 33).unwrap() % below
        };
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..=number(8) {
                let at = number(bytes.len());
                bytes[at] ^= 1 << number(8);
            }
            bytes.truncate(if number(4) == 0 { number(bytes.len()) } else { bytes.len() });
            for name in files_of(FILE) {
                let _ = std::fs::remove_file(dir.path().join(name));
            }
            own_file(&dir.path().join(FILE)).unwrap();
            std::fs::write(dir.path().join(FILE), bytes).unwrap();
            let index = Index::new(dir.path());
            for n in 0..20 {
                let found = place(&index, stamp(n), "src/a.rs");
                assert!(found.is_none_or(|found| found == parsed(&text(n))));
            }
            index.store(vec![entry(30, "fn b() {}\n")]);
            let found = place(&index, stamp(30), "src/a.rs");
            assert!(found.is_none_or(|found| found == parsed("fn b() {}\n")));
        }
    }

    // SYMBOLS-5
    #[test]
    fn a_file_that_another_user_could_have_written_is_not_used() {
        let text = "fn a() {}\n";
        let works = |dir: &tempfile::TempDir| {
            let index = Index::new(dir.path());
            index.store(vec![entry(1, text)]);
            content(&index, text).is_some()
        };
        let dir = own();
        assert!(works(&dir));
        for name in [FILE, LOCK] {
            let mode = dir.path().join(name).metadata().unwrap().mode() & 0o777;
            assert_eq!(mode, 0o600, "{name}");
        }
        let dir = own();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!works(&dir));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let dir = own();
        std::os::unix::fs::symlink("elsewhere", dir.path().join(LOCK)).unwrap();
        assert!(!works(&dir));
        // A database that others may write, or that has another name too, is replaced and not used.
        let dir = own();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "text").unwrap();
        std::fs::hard_link(&victim, dir.path().join(FILE)).unwrap();
        assert!(works(&dir));
        assert_eq!(std::fs::read(&victim).unwrap(), b"text");
    }

    // SYMBOLS-5
    #[test]
    fn an_index_of_another_user_or_of_a_size_that_no_index_reaches_is_made_anew() {
        let text = "fn a() {}\n";
        let dir = own();
        let path = dir.path().join(FILE);
        Index::new(dir.path()).store(vec![entry(1, text)]);
        // A hole takes no room on the disk.
        let size = u64::try_from(2 * MAX_BYTES + 1).unwrap();
        own_file(&path).unwrap().set_len(size).unwrap();
        let index = Index::new(dir.path());
        assert_eq!(content(&index, text), None);
        index.store(vec![entry(1, text)]);
        assert_eq!(content(&index, text), Some(parsed(text)));
        drop(index);
        assert!(path.metadata().unwrap().len() < size);
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let other = Some(rustix::fs::Uid::from_raw(65_534));
        rustix::fs::chown(&path, other, None).unwrap();
        let index = Index::new(dir.path());
        assert_eq!(content(&index, text), None);
        index.store(vec![entry(2, text)]);
        assert_eq!(content(&index, text), Some(parsed(text)));
        drop(index);
        assert_eq!(path.metadata().unwrap().uid(), 0, "the file of the other user is removed");
        rustix::fs::chown(dir.path(), other, None).unwrap();
        let index = Index::new(dir.path());
        index.store(vec![entry(2, text)]);
        assert_eq!(content(&index, text), None, "a directory of another user is not used");
    }

    // SYMBOLS-5
    #[test]
    fn a_program_in_the_schema_of_the_index_never_runs() {
        let dir = own();
        let index = Index::new(dir.path());
        index.store(vec![entry(1, "fn a() {}\n")]);
        drop(index);
        let trigger = "CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM outline; END";
        database(&dir).execute_batch(trigger).unwrap();
        let index = Index::new(dir.path());
        assert_eq!(content(&index, "fn a() {}\n"), None);
        index.store(vec![entry(2, "fn b() {}\n")]);
        assert!(content(&index, "fn b() {}\n").is_some());
    }

    // SYMBOLS-5
    #[test]
    fn a_number_of_uses_that_cannot_be_counted_on_is_damage() {
        let dir = own();
        let (a, b) = ("fn a() {}\n", "fn b() {}\n");
        for used in [i64::MAX, i64::MAX - 1, i64::MAX / 2] {
            let index = Index::new(dir.path());
            index.store(vec![entry(1, a), entry(2, b)]);
            drop(index);
            let change = "UPDATE file SET used = ?1 WHERE inode = 1";
            database(&dir).execute(change, [used]).unwrap();
            let index = Index::new(dir.path());
            assert_eq!(place(&index, stamp(2), "src/a.rs"), None, "{used}");
            index.store(vec![entry(2, b)]);
            assert_eq!(place(&index, stamp(2), "src/a.rs"), Some(parsed(b)));
            drop(index);
            assert_eq!(count(&database(&dir), "SELECT max(used) FROM file"), 1);
        }
    }

    // SYMBOLS-5
    #[test]
    fn a_link_in_place_of_the_index_or_of_its_directory_is_not_followed() {
        let dir = own();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "text").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(FILE)).unwrap();
        let index = Index::new(dir.path());
        index.store(vec![entry(1, "fn a() {}\n")]);
        assert!(content(&index, "fn a() {}\n").is_some(), "the link is replaced");
        assert_eq!(std::fs::read(&victim).unwrap(), b"text");
        let (target, other) = (own(), own());
        let link = other.path().join("cache");
        std::os::unix::fs::symlink(target.path(), &link).unwrap();
        Index::new(&link).store(vec![entry(1, "fn a() {}\n")]);
        assert_eq!(std::fs::read_dir(target.path()).unwrap().count(), 0);
    }

    // SYMBOLS-5
    #[test]
    fn an_index_that_is_replaced_or_cut_while_it_is_open_gives_no_other_answer() {
        let text = "fn a() {}\n";
        for replaced in [true, false] {
            let dir = own();
            let index = Index::new(dir.path());
            index.store(vec![entry(1, text)]);
            let path = dir.path().join(FILE);
            if replaced {
                let new = dir.path().join("new");
                own_file(&new).unwrap();
                std::fs::write(&new, b"SQLite format 3\0 and nothing else").unwrap();
                std::fs::rename(&new, &path).unwrap();
            } else {
                own_file(&path).unwrap().set_len(100).unwrap();
            }
            for n in 1..20 {
                let found = place(&index, stamp(1), "src/a.rs");
                assert!(found.is_none_or(|found| found == parsed(text)));
                index.store(vec![entry(n, text)]);
            }
            drop(index);
            let next = Index::new(dir.path());
            next.store(vec![entry(1, text)]);
            assert!(content(&next, text).is_none_or(|found| found == parsed(text)));
        }
    }

    // SYMBOLS-5
    #[test]
    fn two_processes_share_the_index() {
        let dir = own();
        let source = |n: i64| format!("fn f{n}() {{}}\n");
        // Each index has its own connection and its own handle of the lock, as in two processes.
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            for half in 0..2 {
                let (dir, start) = (&dir, &start);
                scope.spawn(move || {
                    let index = Index::new(dir.path());
                    start.wait();
                    for n in 0..100 {
                        // Both store most of the files.
                        let n = n + half * 20;
                        index.store(vec![entry(n, &source(n))]);
                        let known = place(&index, stamp(n), "src/a.rs");
                        assert!(known.is_none_or(|known| known == parsed(&source(n))));
                    }
                });
            }
        });
        let index = Index::new(dir.path());
        for n in 0..120 {
            assert_eq!(place(&index, stamp(n), "src/a.rs"), Some(parsed(&source(n))), "{n}");
        }
    }

    // SYMBOLS-5
    #[test]
    fn a_damaged_index_is_not_taken_from_a_process_that_has_it_open() {
        let dir = own();
        let (first, second) = (Index::new(dir.path()), Index::new(dir.path()));
        first.store(vec![entry(1, "fn a() {}\n")]);
        let damage = "UPDATE outline SET symbols = x'00'";
        database(&dir).execute_batch(damage).unwrap();
        assert_eq!(place(&second, stamp(1), "src/a.rs"), None);
        second.store(vec![entry(2, "fn b() {}\n")]);
        assert_eq!(content(&second, "fn b() {}\n"), None);
        drop((first, second));
        let third = Index::new(dir.path());
        assert_eq!(place(&third, stamp(1), "src/a.rs"), None);
        third.store(vec![entry(2, "fn b() {}\n")]);
        assert!(content(&third, "fn b() {}\n").is_some());
    }

    #[test]
    fn a_file_without_a_state_is_known_by_its_content() {
        let dir = own();
        let index = Index::new(dir.path());
        index.store(vec![NewEntry { place: None, ..entry(1, "fn a() {}\n") }]);
        assert_eq!(index.by_place(&[None], |stored: &Stored<'_>| stored.outline()), [None]);
        assert_eq!(content(&index, "fn a() {}\n"), Some(parsed("fn a() {}\n")));
    }
}
