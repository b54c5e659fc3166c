//! Outlines by content, kept between queries, each beside its brief. Only a saving: without it, or when it is broken, everything is parsed.
//!
//! One file in a directory of the user's own, never in the repository. The key is a digest of what was parsed and by
//! which rules, so nothing in it can be out of date, and two processes may use it at once.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::{Brief, Language, Outline, Summary, Wanted};

/// Part of every key: raised when rules, grammars or the layout change.
const RULES: &str = "act outlines 5";
/// Outlines that are kept; those that were not used for longest go first.
const KEPT: u32 = 300_000;
/// Bytes of one outline that is believed.
const LARGEST: usize = 4 << 20;
const FILE: &str = "outlines.sqlite";

/// What a file's outline is kept under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// `path` counts with its last name only, as it does for the outline.
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

pub struct Index {
    path: PathBuf,
    state: Mutex<State>,
}

enum State {
    Closed,
    Open(Connection),
    /// Not to be had; nobody tries again.
    Broken,
}

impl Index {
    /// In `dir`, which must be there and the user's own when the first outline is wanted.
    pub fn new(dir: &Path) -> Self {
        Self { path: dir.join(FILE), state: Mutex::new(State::Closed) }
    }

    /// What is kept, in the order of `keys`.
    pub fn get(&self, keys: &[Key]) -> Vec<Option<Outline>> {
        self.look(keys, |row| Ok(read(row.get_ref(1)?.as_blob()?)))
    }

    /// The same as summaries; an outline in which nothing is wanted is not even looked at.
    pub fn summaries(&self, keys: &[Key], wanted: &Wanted) -> Vec<Option<Summary>> {
        self.look(keys, |row| {
            let Some(brief) = read::<Brief>(row.get_ref(0)?.as_blob()?) else { return Ok(None) };
            if !wanted.is_in(&brief) {
                return Ok(Some(Summary { brief, named: vec![] }));
            }
            let outline = read::<Outline>(row.get_ref(1)?.as_blob()?);
            Ok(outline.map(|outline| Summary { brief, named: wanted.among(outline.symbols) }))
        })
    }

    /// What `take` makes of the rows; none where there is no such row, or nothing in it that is believed.
    fn look<T>(
        &self,
        keys: &[Key],
        take: impl Fn(&Row<'_>) -> rusqlite::Result<Option<T>>,
    ) -> Vec<Option<T>> {
        let found = self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let mut look = transaction.prepare("SELECT brief, outline FROM file WHERE key = ?1")?;
            let found = keys.iter().map(|Key(key)| {
                look.query_row(params![&key[..]], &take).optional().map(Option::flatten)
            });
            found.collect::<rusqlite::Result<Vec<_>>>()
        });
        let mut found = found.unwrap_or_default();
        found.resize_with(keys.len(), || None);
        found
    }

    pub fn keep(&self, outlines: &[(Key, &Outline)]) {
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

    /// None when there is no index; one that fails is given up.
    fn with<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Option<T> {
        let mut state = self.state.lock().ok()?;
        if matches!(*state, State::Closed) {
            *state = open(&self.path).map_or(State::Broken, State::Open);
        }
        let State::Open(connection) = &*state else { return None };
        match act(connection) {
            Ok(done) => Some(done),
            Err(error) => {
                // Another process may be at it; damage is not waited for.
                if !is_busy(&error) {
                    *state = State::Broken;
                    let _ = std::fs::remove_file(&self.path);
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

/// Only in a directory that nobody else can write or look into.
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
        // What is lost in a crash is parsed again.
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
            "DELETE FROM file WHERE seq <= (SELECT max(seq) FROM file) - ?1",
            params![KEPT],
        )?;
        Ok(connection)
    };
    match open() {
        Ok(connection) => Some(connection),
        Err(error) if is_busy(&error) => None,
        Err(_) => {
            std::fs::remove_file(path).ok()?;
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
        Index::new(dir.path()).keep(&[(key(a), &parsed(a))]);
        let found = Index::new(dir.path()).get(&[key(b), key(a)]);
        assert_eq!(found, [None, Some(parsed(a))]);
        assert_eq!(key(a), Key::of(Language::Rust, "other/a.rs", a.as_bytes()));
        assert_ne!(key(a), Key::of(Language::Rust, "src/b.rs", a.as_bytes()));
        assert_ne!(key(a), Key::of(Language::C, "src/a.rs", a.as_bytes()));
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
        index.keep(&[(key, &parsed(text))]);
        assert_eq!(index.get(&[key]), [Some(parsed(text))]);
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        for unusable in [dir.path().join("missing"), open] {
            let none = Index::new(&unusable);
            none.keep(&[(key, &parsed(text))]);
            assert_eq!(none.get(&[key, key]), [None, None]);
        }
    }

    #[test]
    fn what_is_no_outline_is_not_believed() {
        let dir = own();
        let text = "fn a() {}\n";
        let key = Key::of(Language::Rust, "a.rs", text.as_bytes());
        Index::new(dir.path()).keep(&[(key, &parsed(text))]);
        let connection = Connection::open(dir.path().join(FILE)).unwrap();
        let all = Wanted::new(&["a".to_owned()]).unwrap();
        let summary = Summary::of(parsed(text), &all);
        assert_eq!(Index::new(dir.path()).summaries(&[key], &all), [Some(summary)]);
        connection.execute("UPDATE file SET outline = x'7b7d'", []).unwrap();
        assert_eq!(Index::new(dir.path()).get(&[key]), [None]);
        assert_eq!(Index::new(dir.path()).summaries(&[key], &all), [None]);
        connection.execute("UPDATE file SET brief = x'7b7d'", []).unwrap();
        let none = Wanted::new(&[]).unwrap();
        assert_eq!(Index::new(dir.path()).summaries(&[key], &none), [None]);
    }
}
