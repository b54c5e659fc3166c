//! A cache of outlines by content, each beside its brief. It only saves time: without it, or when it is damaged, every
//! file is parsed.
//!
//! The cache is one SQLite file in a private directory of the user, never in the repository. The key is a digest of
//! what was parsed and by which rules, so no entry can be out of date, and two processes may use the file at once.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::{Brief, Language, NameFilter, Outline, Summary};

/// Part of every key: raised when rules, grammars or the layout change.
const RULES: &str = "act outlines 5";
/// Maximum number of outlines. Beyond it, the ones that were not used for the longest time are removed.
const MAX_OUTLINES: i64 = 300_000;
/// A row that is used gets a new number when this many rows are newer, so that a run over unchanged files seldom
/// writes.
const REFRESHED: i64 = MAX_OUTLINES / 2;
/// Maximum number of bytes of a stored outline that is parsed.
const LARGEST: usize = 4 << 20;
const FILE: &str = "outlines.sqlite";

/// The key of a file's outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Computes the key. Only the last name of `path` counts, as for the outline itself.
    pub fn of(language: Language, path: &str, source: &[u8]) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let digest = Sha256::new()
            .chain_update(RULES)
            .chain_update([0, language as u8])
            .chain_update(name)
            .chain_update([0])
            .chain_update(source)
            .finalize();
        Self(digest.into())
    }
}

/// The cache of outlines.
pub struct Index {
    path: PathBuf,
    state: Mutex<State>,
}

enum State {
    Closed,
    Open(Connection),
    /// The file cannot be used; this process does not try again.
    Broken,
}

impl Index {
    /// Returns the cache in `dir`. When the first outline is looked up, `dir` must exist and be private to the user.
    pub fn new(dir: &Path) -> Self {
        Self { path: dir.join(FILE), state: Mutex::new(State::Closed) }
    }

    /// Returns the stored outlines in the order of `keys`.
    pub fn get(&self, keys: &[Key]) -> Vec<Option<Outline>> {
        self.look_up(keys, |row| Ok(read(row.get_ref(1)?.as_blob()?)))
    }

    /// Returns summaries in the order of `keys`. An outline that cannot hold a wanted name is not parsed.
    pub fn summaries(&self, keys: &[Key], wanted: &NameFilter) -> Vec<Option<Summary>> {
        self.look_up(keys, |row| {
            let Some(brief) = read::<Brief>(row.get_ref(0)?.as_blob()?) else { return Ok(None) };
            if !wanted.is_in(&brief) {
                return Ok(Some(Summary { brief, named: vec![] }));
            }
            let outline = read::<Outline>(row.get_ref(1)?.as_blob()?);
            Ok(outline.map(|outline| Summary { brief, named: wanted.among(outline.symbols) }))
        })
    }

    /// Returns what `take` makes of each row, or `None` where the row is missing or damaged.
    fn look_up<T>(
        &self,
        keys: &[Key],
        take: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Vec<Option<T>> {
        let found = self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let last: i64 =
                transaction
                    .query_row("SELECT ifnull(max(seq), 0) FROM file", [], |row| row.get(0))?;
            let mut find =
                transaction.prepare("SELECT brief, outline, seq FROM file WHERE key = ?1")?;
            let mut old = vec![];
            let found = keys.iter().map(|Key(key)| {
                let row = find.query_row(params![&key[..]], |row| {
                    let seq: i64 = row.get(2)?;
                    if seq <= last - REFRESHED {
                        old.push(seq);
                    }
                    take(row)
                });
                row.optional().map(Option::flatten)
            });
            let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
            drop(find);
            // A failure, for instance because another process writes, only lets these rows look older than they are.
            if refresh(&transaction, &old, last).is_ok() {
                let _ = transaction.commit();
            }
            Ok(found)
        });
        let mut found = found.unwrap_or_default();
        found.resize_with(keys.len(), || None);
        found
    }

    /// Stores outlines. A failure is not reported, because the cache only saves time.
    pub fn store(&self, outlines: &[(Key, &Outline)]) {
        if outlines.is_empty() {
            return;
        }
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            {
                let mut put = transaction.prepare(
                    "INSERT OR REPLACE INTO file (key, brief, outline) VALUES (?1, ?2, ?3)",
                )?;
                for (Key(key), outline) in outlines {
                    let brief = serde_json::to_vec(&Brief::of(outline));
                    let (Ok(brief), Ok(outline)) = (brief, serde_json::to_vec(outline)) else {
                        continue;
                    };
                    put.execute(params![&key[..], brief, outline])?;
                }
            }
            transaction.commit()
        });
    }

    /// Runs `act` on the open cache. Returns `None` without one; a cache that fails is removed and given up.
    fn with<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let mut state = self.state.lock().ok()?;
        if matches!(*state, State::Closed) {
            *state = open(&self.path).map_or(State::Broken, State::Open);
        }
        let State::Open(connection) = &*state else { return None };
        match act(connection) {
            Ok(done) => Some(done),
            Err(error) => {
                // Another process may be using the cache; any other error means damage.
                if !is_busy(&error) {
                    *state = State::Broken;
                    remove(&self.path);
                }
                None
            }
        }
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    (bytes.len() <= LARGEST).then(|| serde_json::from_slice(bytes).ok()).flatten()
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, ReadOnly};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | DiskFull | ReadOnly))
}

/// Gives rows that were used the newest numbers, so that they are removed last.
fn refresh(connection: &Connection, old: &[i64], last: i64) -> rusqlite::Result<()> {
    let mut update = connection.prepare("UPDATE file SET seq = ?2 WHERE seq = ?1")?;
    for (seq, new) in old.iter().zip(last + 1..) {
        update.execute(params![seq, new])?;
    }
    Ok(())
}

/// Removes the file and what SQLite stores beside it: a new database must not find the log of the old one.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
}

/// Returns whether only the user can write to the directory or list it.
fn is_own(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|dir| {
        dir.is_dir() && dir.uid() == rustix::process::geteuid().as_raw() && dir.mode() & 0o077 == 0
    })
}

fn open(path: &Path) -> Option<Connection> {
    path.parent().filter(|dir| is_own(dir))?;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_millis(200))?;
        // Outlines that are lost in a crash are parsed again.
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.execute_batch(
            "DROP TABLE IF EXISTS outline;
             CREATE TABLE IF NOT EXISTS file (
                 seq INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE,
                 brief BLOB NOT NULL, outline BLOB NOT NULL
             ) STRICT",
        )?;
        connection.execute(
            "DELETE FROM file WHERE seq <= (SELECT seq FROM file ORDER BY seq DESC LIMIT 1 OFFSET ?1)",
            params![MAX_OUTLINES],
        )?;
        Ok(connection)
    };
    match open() {
        Ok(connection) => Some(connection),
        Err(error) if is_busy(&error) => None,
        Err(_) => {
            remove(path);
            open().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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

    #[test]
    fn an_outline_is_kept_under_what_it_was_made_of() {
        let dir = own();
        let (a, b) = ("fn a() {}\n", "fn b() {}\n");
        let key = |text: &str| Key::of(Language::Rust, "src/a.rs", text.as_bytes());
        Index::new(dir.path()).store(&[(key(a), &parsed(a))]);
        let found = Index::new(dir.path()).get(&[key(b), key(a)]);
        assert_eq!(found, [None, Some(parsed(a))]);
        assert_eq!(key(a), Key::of(Language::Rust, "other/a.rs", a.as_bytes()));
        assert_ne!(key(a), Key::of(Language::Rust, "src/b.rs", a.as_bytes()));
        assert_ne!(key(a), Key::of(Language::C, "src/a.rs", a.as_bytes()));
    }

    #[test]
    fn what_is_used_is_removed_last() {
        let dir = own();
        let texts: Vec<_> = (0..3).map(|number| format!("fn f{number}() {{}}\n")).collect();
        let key = |text: &str| Key::of(Language::Rust, "a.rs", text.as_bytes());
        let keys: Vec<_> = texts.iter().map(|text| key(text)).collect();
        let outlines: Vec<_> = texts.iter().map(|text| parsed(text)).collect();
        let index = Index::new(dir.path());
        index.store(&keys.iter().copied().zip(&outlines).collect::<Vec<_>>());
        drop(index);
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        // The test raises the number as if that many outlines had been stored since.
        let later = "UPDATE file SET seq = seq + ?1 WHERE key = ?2";
        connection.execute(later, params![REFRESHED, &keys[2].0[..]]).unwrap();
        assert!(Index::new(dir.path()).get(&keys[..1])[0].is_some());
        let order = "SELECT key FROM file ORDER BY seq";
        let mut order = connection.prepare(order).unwrap();
        let order: Vec<Vec<u8>> =
            order.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(order, [keys[1].0, keys[2].0, keys[0].0].map(|key| key.to_vec()));
    }

    #[test]
    fn a_damaged_index_is_made_anew_and_one_that_cannot_be_is_done_without() {
        let dir = own();
        std::fs::write(
            dir.path().join(FILE),
            "no database at all, but long enough to look like one".repeat(9),
        )
        .unwrap();
        let text = "fn a() {}\n";
        let key = Key::of(Language::Rust, "a.rs", text.as_bytes());
        let index = Index::new(dir.path());
        assert_eq!(index.get(&[key]), [None]);
        index.store(&[(key, &parsed(text))]);
        assert_eq!(index.get(&[key]), [Some(parsed(text))]);
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        for unusable in [dir.path().join("missing"), open] {
            let none = Index::new(&unusable);
            none.store(&[(key, &parsed(text))]);
            assert_eq!(none.get(&[key, key]), [None, None]);
        }
    }

    #[test]
    fn what_is_no_outline_is_not_believed() {
        let dir = own();
        let text = "fn a() {}\n";
        let key = Key::of(Language::Rust, "a.rs", text.as_bytes());
        Index::new(dir.path()).store(&[(key, &parsed(text))]);
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        let all = NameFilter::new(&["a".to_owned()]).unwrap();
        let summary = Summary::of(parsed(text), &all);
        assert_eq!(Index::new(dir.path()).summaries(&[key], &all), [Some(summary)]);
        connection.execute("UPDATE file SET outline = x'7b7d'", []).unwrap();
        assert_eq!(Index::new(dir.path()).get(&[key]), [None]);
        assert_eq!(Index::new(dir.path()).summaries(&[key], &all), [None]);
        connection.execute("UPDATE file SET brief = x'7b7d'", []).unwrap();
        let none = NameFilter::new(&[]).unwrap();
        assert_eq!(Index::new(dir.path()).summaries(&[key], &none), [None]);
    }
}
