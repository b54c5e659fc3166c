//! `grants.toml`: what the user granted, and to which bytes. The only document that can widen anything, and only
//! the user's own commands write it.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::toml_file::{self, FileError};
use super::trusted::{self, Owner};
use crate::{
    Capability, Ceiling, ComponentName, Grant, Http, Kind, Limits, Llm, RepoRead, Sha256, builtin,
};
use act_audit::{GrantsSeen, NO_BYTES, Subject};
use act_fs::lock::{self, Kind as LockKind};
use act_fs::{Dir, Durability};
use act_workspace::digest;

const NAME: &str = "grants.toml";
const MAX_BYTES: u64 = 1 << 20;
/// Maximum wait for the lock. A decision is recorded and written in milliseconds; reading the grants takes less.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const HEAD: &str = "# What components may do. Written by `act components`; each grant holds for these bytes alone.\n\n";

/// All approvals, in the order in which they were given. A name stands there once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    #[serde(default, rename = "component")]
    pub approvals: Vec<Approval>,
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantsFile {
    pub path: PathBuf,
    pub sha256: String,
}

/// One component that the user let in, or has let in before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    pub name: ComponentName,
    pub sha256: Sha256,
    pub kind: Kind,
    /// UTC, ISO 8601.
    pub approved_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Identity of the one repository that it holds for; none: for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// The built-in component whose place it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ComponentName>,
    /// The bytes that had this name before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Sha256>,
    pub grants: Grant,
    /// What the user took away from this name, for whatever bytes it means.
    #[serde(default, skip_serializing_if = "Ceiling::is_nothing")]
    pub narrowed: Ceiling,
}

impl Grants {
    /// Of the user, and the file that says so; none where there is none. `repo` is the repository in use, in which
    /// it must not lie.
    pub fn read(repo: Option<&Path>) -> Result<(Self, Option<GrantsFile>), FileError> {
        let Some(place) = directory_path() else { return Ok(Default::default()) };
        let untrusted = |why| FileError::Untrusted { path: place.join(NAME), why };
        let Some(dir) = trusted::directory(&place, repo, Owner::Caller).map_err(untrusted)? else {
            return Ok(Default::default());
        };
        Self::read_in(&dir, &place.join(NAME))
    }

    fn read_in(dir: &Dir, path: &Path) -> Result<(Self, Option<GrantsFile>), FileError> {
        let untrusted = |why| FileError::Untrusted { path: path.to_owned(), why };
        let text = trusted::text(dir, NAME, MAX_BYTES, Owner::Caller).map_err(untrusted)?;
        let Some(text) = text else { return Ok(Default::default()) };
        let file = GrantsFile { path: path.to_owned(), sha256: digest(text.as_bytes()) };
        Ok((Self::parse(&text, path)?, Some(file)))
    }

    fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let mut grants: Self = toml_file::parse(text, path)?;
        let tables: NarrowedTables = toml_file::parse(text, path)?;
        let mut headers = text.match_indices("[[component]]").map(|(at, _)| at);
        for (approval, tables) in grants.approvals.iter_mut().zip(tables.component) {
            let header = headers.next().unwrap_or_default();
            complete_narrowed(&mut approval.narrowed, tables.narrowed).map_err(
                |(field, why)| {
                    let after = |from: usize, word: &str| {
                        text.get(from..).and_then(|rest| Some(from + rest.find(word)?))
                    };
                    let table = after(header, "narrowed").unwrap_or(header);
                    let at = after(table, &field).unwrap_or(table);
                    toml_file::malformed(text, path, at, &why)
                },
            )?;
        }
        for (at, approval) in grants.approvals.iter().enumerate() {
            let malformed = |value: &str, why: String| {
                let place = text.rfind(&format!("\"{value}\"")).unwrap_or_default();
                Err(toml_file::malformed(text, path, place, &why))
            };
            let name = approval.name.as_str();
            if grants.approvals.iter().take(at).any(|other| other.name == approval.name) {
                return malformed(name, format!("`{name}` stands there twice"));
            }
            if let Some((value, why)) = approval.wrong() {
                return malformed(&value, why);
            }
        }
        Ok(grants)
    }

    /// Nobody decides anything as long as this is held; nothing where there is no directory for it.
    pub fn hold(repo: Option<&Path>) -> Result<Option<Dir>, FileError> {
        let Some(place) = directory_path() else { return Ok(None) };
        let path = place.join(NAME);
        let untrusted = |why| FileError::Untrusted { path: path.clone(), why };
        let dir = trusted::directory(&place, repo, Owner::Caller).map_err(untrusted)?;
        let Some(dir) = dir else { return Ok(None) };
        lock(&dir, LockKind::Shared)
            .map_err(|why| FileError::Unwritable { path: path.clone(), why })?;
        Ok(Some(dir))
    }

    /// For the record: the bytes that were read, none of them where there was no file, and what they give.
    pub(super) fn seen<T>(
        &self,
        file: Option<&GrantsFile>,
        take: impl FnOnce(GrantsSeen<'_>) -> T,
    ) -> T {
        let in_force = self.approvals.iter().filter(|approval| approval.revoked_at.is_none());
        let approvals: Vec<_> = in_force.map(|approval| approval.told(None)).collect();
        let path = file.map(|file| file.path.clone());
        let path = path.or_else(|| Some(directory_path()?.join(NAME))).unwrap_or_default();
        take(GrantsSeen {
            path: &path.display().to_string(),
            sha256: file.map_or(NO_BYTES, |file| &file.sha256),
            approvals: &approvals,
        })
    }

    pub fn of(&self, name: &str) -> Option<&Approval> {
        self.approvals.iter().find(|approval| approval.name.as_str() == name)
    }

    /// Another one that has the same built-in component's place where this one is to have it.
    pub(super) fn rival(&self, approval: &Approval) -> Option<&Approval> {
        let counts = |one: &Approval| one.revoked_at.is_none() && one.replaces.is_some();
        self.approvals.iter().find(|other| {
            counts(approval)
                && counts(other)
                && other.name != approval.name
                && other.replaces == approval.replaces
                && (other.repo == approval.repo || other.repo.is_none() || approval.repo.is_none())
        })
    }

    pub(super) fn put(&mut self, approval: Approval) {
        match self.approvals.iter_mut().find(|known| known.name == approval.name) {
            Some(known) => *known = approval,
            None => self.approvals.push(approval),
        }
    }
}

impl Approval {
    /// A value that no approval has, and why.
    fn wrong(&self) -> Option<(String, String)> {
        let name = self.name.as_str();
        if is_reserved(name) {
            return Some((name.to_owned(), format!("`{name}` is a name of our own")));
        }
        if let Some(place) = &self.replaces {
            let place = place.as_str();
            if !builtin::ALL.iter().any(|one| one.name == place) {
                let why = format!("there is no built-in component `{place}` to replace");
                return Some((place.to_owned(), why));
            }
            if (place == builtin::FILE_TOOLS.name) != (self.kind == Kind::Tool) {
                let why = format!("a {} cannot take the place of `{place}`", self.kind.word());
                return Some((place.to_owned(), why));
            }
        }
        let mut withheld = self.grants.withheld.iter().chain(&self.narrowed.withheld);
        if let Some(unknown) = withheld.find(|name| Capability::named(name).is_none()) {
            return Some((unknown.clone(), format!("`{}` is no grant", unknown.escape_debug())));
        }
        let times = std::iter::once(&self.approved_at).chain(&self.revoked_at);
        let is_time = |time: &str| chrono::DateTime::parse_from_rfc3339(time).is_ok();
        let wrong = times.into_iter().find(|time| !is_time(time))?;
        Some((wrong.clone(), "a time is written like 2026-11-21T16:00:00Z".to_owned()))
    }

    /// As the audit log has it; `world` is that of its bytes.
    pub(super) fn told(&self, world: Option<&str>) -> act_audit::Approval {
        let Self { name, sha256, repo, replaces, before, grants, .. } = self;
        let mut words = grants.in_words();
        words.extend(replaces.as_ref().map(|place| format!("replaces {place}")));
        words.extend(repo.as_ref().map(|repo| format!("repository {repo}")));
        act_audit::Approval {
            subject: Subject {
                name: name.to_string(),
                sha256: sha256.to_string(),
                world: world.map(str::to_owned),
            },
            words,
            effective_sha256: grants.sha256(),
            before: before.as_ref().map(ToString::to_string),
        }
    }
}

/// The tables `narrowed` of the file as they are written, which shows the fields that are missing.
#[derive(Deserialize)]
struct NarrowedTables {
    #[serde(default)]
    component: Vec<NarrowedTable>,
}

#[derive(Deserialize)]
struct NarrowedTable {
    #[serde(default)]
    narrowed: toml::Table,
}

/// Completes what was read from a table `narrowed`, which a person may have edited.
///
/// A number above its maximum is refused, and a number that is missing from one of the tables has the value that it has
/// in a grant. Version 0.1.0 read the table so; a [`Ceiling`] alone would not limit the missing number.
///
/// # Errors
///
/// The name of the wrong field, and why it is wrong.
fn complete_narrowed(
    narrowed: &mut Ceiling,
    mut written: toml::Table,
) -> Result<(), (String, String)> {
    written.retain(|_, value| value.is_table());
    let usual = Grant {
        repo_read: Some(RepoRead::default()),
        llm: Some(Llm::default()),
        http: Some(Http::default()),
        ..Grant::default()
    };
    let usual = toml::Table::try_from(usual).unwrap_or_default();
    for (part, fields) in &written {
        for (field, number) in fields.as_table().into_iter().flatten() {
            // A grant reads its numbers with their maxima, so the number takes its place in a grant.
            let mut grant = usual.clone();
            if let Some(toml::Value::Table(fields)) = grant.get_mut(part) {
                fields.insert(field.clone(), number.clone());
            }
            grant.try_into::<Grant>().map_err(|error| {
                (field.clone(), format!("`narrowed.{part}.{field}`: {}", error.message()))
            })?;
        }
    }
    let limits_are_written = written.contains_key("limits");
    let part = written.keys().next().cloned().unwrap_or_default();
    let mut bounds: Grant = written
        .try_into()
        .map_err(|error: toml::de::Error| (part, format!("`narrowed`: {}", error.message())))?;
    if !limits_are_written {
        bounds.limits = Limits::unlimited();
    }
    let withheld = narrowed.withheld.clone();
    *narrowed = std::mem::take(narrowed).and(&bounds, Some(&Grant::everything()));
    narrowed.withheld = withheld;
    Ok(())
}

/// Names that mean something else: those of built-in components and those of a conversation.
pub fn is_reserved(name: &str) -> bool {
    ["editor", "a", "b"].contains(&name) || builtin::ALL.iter().any(|one| one.name == name)
}

/// The file for as long as it is being changed: nobody else changes it meanwhile.
pub(super) struct Writing {
    dir: Dir,
    path: PathBuf,
    pub(super) grants: Grants,
    /// As it was found.
    pub(super) file: Option<GrantsFile>,
}

impl Writing {
    pub(super) fn begin(repo: Option<&Path>) -> Result<Self, FileError> {
        let place = directory_path().ok_or(FileError::NoHome)?;
        let path = place.join(NAME);
        let unwritable = |why: String| FileError::Unwritable { path: path.clone(), why };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&place)
            .map_err(|error| unwritable(error.to_string()))?;
        let untrusted = |why| FileError::Untrusted { path: path.clone(), why };
        let dir = trusted::directory(&place, repo, Owner::Caller)
            .map_err(untrusted)?
            .ok_or_else(|| unwritable("its directory is gone".to_owned()))?;
        lock(&dir, LockKind::Exclusive).map_err(unwritable)?;
        let (grants, file) = Grants::read_in(&dir, &path)?;
        Ok(Self { dir, path, grants, file })
    }

    /// What will stand in the file.
    pub(super) fn text(&self) -> Result<String, FileError> {
        let text = toml::to_string(&self.grants).map_err(|error| FileError::Unwritable {
            path: self.path.clone(),
            why: error.to_string(),
        })?;
        let text = format!("{HEAD}{text}");
        if text.len() as u64 > MAX_BYTES {
            // Nobody could read it any more.
            let why = format!(
                "it would be larger than {MAX_BYTES} bytes; revoke and remove what is not used"
            );
            return Err(FileError::Unwritable { path: self.path.clone(), why });
        }
        Ok(text)
    }

    /// Whole or not at all, and on the disk before anybody is told.
    pub(super) fn finish(&self, text: &str) -> Result<(), FileError> {
        let unwritable = |why: String| FileError::Unwritable { path: self.path.clone(), why };
        let written = self.dir.replace(NAME, text.as_bytes(), Durability::ContentsAndName);
        written.map_err(|error| unwritable(error.to_string()))
    }
}

/// Takes the lock on the directory of `grants.toml`, within a bound: a stopped process can hold it for ever.
fn lock(dir: &Dir, kind: LockKind) -> Result<(), String> {
    match lock::wait(dir, kind, LONGEST_WAIT) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "another process has held its lock for {} s; end that process and try again",
            LONGEST_WAIT.as_secs()
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Where the user decides: `$XDG_CONFIG_HOME/act`, else `~/.config/act`.
pub fn directory_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(base.join("act"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

    fn parse(text: &str) -> Result<Grants, String> {
        Grants::parse(text, Path::new("grants.toml")).map_err(|error| error.to_string())
    }

    fn entry(name: &str, rest: &str) -> String {
        format!(
            "[[component]]\nname = \"{name}\"\nsha256 = \"{DIGEST}\"\nkind = \"scout\"\n\
             approved_at = \"2026-11-21T10:00:00Z\"\n{rest}\n"
        )
    }

    // CAPABILITY-24
    #[test]
    fn what_is_written_is_read_again() {
        let text = entry("license", "[component.grants.llm]\ncalls = 3\ntokens = 400");
        let grants = parse(&text).unwrap();
        assert_eq!(grants.of("license").unwrap().grants.llm.as_ref().unwrap().calls, 3);
        let mut full = grants.clone();
        let approval = Approval {
            name: "hands".parse().unwrap(),
            kind: Kind::Tool,
            repo: Some("1-2".into()),
            replaces: Some("file-tools".parse().unwrap()),
            grants: Grant {
                env: ["FOO".parse().unwrap()].into_iter().collect(),
                ..Grant::builtin_tool()
            },
            ..grants.approvals[0].clone()
        };
        full.put(approval);
        assert_eq!(parse(&toml::to_string(&full).unwrap()).unwrap(), full);
    }

    // CAPABILITY-24
    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (text, says) in [
            (
                entry("x", "[component.grants]\nroot = true"),
                "grants.toml:7:1: unknown field `root`",
            ),
            (
                entry("x", "colour = 1\n[component.grants]"),
                "grants.toml:6:1: unknown field `colour`",
            ),
            (entry("A!", "[component.grants]"), "grants.toml:2:"),
            (entry("x", "[component.grants]\nenv = [\"OPENAI_API_KEY\"]"), "never granted"),
            (entry("x", "[component.grants]\nenv = \"any\""), "grants.toml:7:"),
            (entry("x", "[component.grants.llm]\ncalls = -1\ntokens = 1"), "grants.toml:7:"),
            (entry("licences", ""), "missing field `grants`"),
            (entry("scout-a", "[component.grants]"), "grants.toml:2:8: `scout-a` is a name of our"),
            (entry("editor", "[component.grants]"), "is a name of our own"),
            (entry("x", "replaces = \"nobody\"\n[component.grants]"), "grants.toml:6:12: there is"),
            (entry("x", "replaces = \"file-tools\"\n[component.grants]"), "a scout cannot take"),
            (entry("x", "revoked_at = \"now\"\n[component.grants]"), "grants.toml:6:14: a time is"),
            ("x = ".to_owned(), "grants.toml:1:"),
            (format!("{0}{0}", entry("x", "[component.grants]")), "stands there twice"),
        ] {
            let refused = parse(&text).unwrap_err();
            assert!(refused.contains(says), "{refused}\n{text}");
        }
    }

    /// What an approval with this table `narrowed` gives to a component that needs everything.
    fn narrowed(table: &str) -> Result<Grant, String> {
        let grants = parse(&entry("x", &format!("[component.grants]\n{table}")))?;
        Ok(grants.of("x").unwrap().narrowed.applied(Grant::everything(), &[]))
    }

    // CAPABILITY-46
    #[test]
    fn a_number_of_narrowed_above_its_maximum_is_refused_by_its_name() {
        for (table, at, says) in [
            (
                "limits]\nhandles = 3\nmemory_bytes = 4294967297",
                "9:1",
                "`narrowed.limits.memory_bytes`: 4294967297 is more than is ever given; write at most 4294967296",
            ),
            (
                "limits]\nwall_ms = 3600001",
                "8:1",
                "`narrowed.limits.wall_ms`: 3600001 is more than is ever given; write at most 3600000",
            ),
            ("llm]\ncalls = 10001\ntokens = 1", "8:1", "`narrowed.llm.calls`: 10001 is more"),
            (
                "\"repo.read\"]\nfile_bytes = 9007199254740992",
                "8:1",
                "`narrowed.repo.read.file_bytes`: 9007199254740992 is more",
            ),
        ] {
            let refused = narrowed(&format!("[component.narrowed.{table}")).unwrap_err();
            assert!(refused.starts_with(&format!("grants.toml:{at}: {says}")), "{refused}");
        }
        assert!(narrowed("[component.narrowed.limits]\nmemory_bytes = 4294967296").is_ok());
    }

    // CAPABILITY-44
    #[test]
    fn a_number_that_is_missing_from_a_table_of_narrowed_has_the_value_of_a_grant() {
        let some = narrowed("[component.narrowed.limits]\nhandles = 3").unwrap();
        assert_eq!(some.limits, Limits { handles: 3, ..Limits::default() });
        let none = narrowed("[component.narrowed.limits]").unwrap();
        assert_eq!(none.limits, Limits::default());
        let read = narrowed("[component.narrowed.\"repo.read\"]\npaths = [\"src\"]").unwrap();
        assert_eq!(read.limits, Limits::unlimited(), "the table `limits` is absent");
        let read = read.repo_read.unwrap();
        assert_eq!((read.file_bytes, read.query_bytes), (16 << 20, 512 << 20));
        assert!(read.covers("src/a") && !read.covers("docs"));
        let refused = narrowed("[component.narrowed.llm]\ncalls = 3").unwrap_err();
        assert!(refused.contains("missing field `tokens`"), "{refused}");
        let http = "[component.narrowed.http]\norigins = [\"https://a.example\"]\nmethods = [\"GET\"]\n\
                    request_bytes = 1\nresponse_bytes = 2";
        let http = narrowed(http).unwrap().http.unwrap();
        assert_eq!((http.requests, http.at_once, http.query_bytes), (100, 8, 64 << 20));
        // A value that grants nothing is a limit too, and what is not named is not limited.
        let few = narrowed("[component.narrowed]\nenv = []\nclock = \"constant\"").unwrap();
        assert!(few.env.is_empty() && !few.has(Capability::Clock));
        assert_eq!(narrowed("").unwrap(), Grant::everything());
    }
}
