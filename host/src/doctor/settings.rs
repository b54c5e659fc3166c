//! Where the model is, where compiled components and artifacts go. No key is ever shown.

use std::path::{Path, PathBuf};

use super::Check;
use act_component::{CacheState, cache_dir, cache_state};
use act_config::{EnvironmentError, ModelAccess};
use act_core::Failure;
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;

const GIB: u64 = 1 << 30;
/// A run of a middling project needs more.
const TOO_LITTLE: u64 = GIB;
const LITTLE: u64 = 5 * GIB;

/// Those that have a say, in the order in which they have it; a key is only told to be there.
const VARIABLES: [(&str, bool); 6] = [
    ("AGENT_LLM_BASE_URL", false),
    ("AGENT_LLM_MODEL", false),
    ("ANTHROPIC_API_KEY", true),
    ("ANTHROPIC_BASE_URL", false),
    ("OPENAI_API_KEY", true),
    ("OPENAI_BASE_URL", false),
];

pub(super) fn model(access: &Result<ModelAccess, EnvironmentError>) -> Check {
    match access {
        Ok(access) => Check::ok("model", format!("{} ({})", endpoint(access), set())),
        Err(error) => Check::red("model", format!("{error} ({})", set()), error.hint()),
    }
}

fn endpoint(access: &ModelAccess) -> String {
    let (ModelAccess::Custom { base_url, model, .. }
    | ModelAccess::Anthropic { base_url, model, .. }
    | ModelAccess::OpenAi { base_url, model, .. }) = access
    else {
        return "a script".to_owned();
    };
    let key = if access.has_key() { "with a key" } else { "without a key" };
    format!("{model} at {base_url}, {}, {key}", access.service().wire)
}

fn set() -> String {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let names: Vec<_> = VARIABLES
        .iter()
        .filter(|(name, _)| is_set(name))
        .map(|(name, key)| if *key { format!("{name} holds a key") } else { (*name).to_owned() })
        .collect();
    match names.is_empty() {
        true => "no variable is set".to_owned(),
        false => format!("set: {}", names.join(", ")),
    }
}

pub(super) fn components() -> Check {
    const NAME: &str = "components";
    let Some(dir) = cache_dir() else {
        let message = "compiled components are not cached: there is no home directory";
        return Check::note(NAME, message, "set HOME or XDG_CACHE_HOME to an absolute path");
    };
    let at = dir.display();
    match cache_state(&dir) {
        CacheState::Absent => Check::ok(NAME, format!("{at} is created when it is needed")),
        CacheState::Usable { entries, mode } => {
            Check::ok(NAME, format!("{at}: {entries} compiled, mode {mode:04o}"))
        }
        CacheState::Unusable => Check::note(
            NAME,
            format!(
                "{at} is not used, so every task compiles its components again: other users can read or write \
                 it, or it cannot be opened"
            ),
            format!("run `chmod 700 {at}`, or remove it"),
        ),
    }
}

/// Reports problems in the words of the task that would be refused.
pub(super) fn artifacts(root: Option<&Path>) -> Vec<Check> {
    const NAME: &str = "artifacts";
    let place = std::env::var_os("AGENT_ARTIFACT_DIR");
    let place = ArtifactDir::locate(place, std::env::var_os("HOME"));
    let looked = place.and_then(|place| Ok((ArtifactDir::look(&place, root)?, place)));
    let (state, place) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let fix = error.hint();
            return vec![Check::red(NAME, Failure::from(error).message, fix)];
        }
    };
    let looked = state.map_or(Ok(()), |state| Store::look(&state, &place.join("state")));
    let broken = looked.err().map(|error| Check::red("store", error.to_string(), error.hint()));
    std::iter::once(room(&place)).chain(broken).collect()
}

fn room(place: &Path) -> Check {
    const NAME: &str = "artifacts";
    let at = place.display();
    match free(place) {
        Err(error) => Check::red(
            NAME,
            format!("cannot use {at}: {error}"),
            "make it writable, or set AGENT_ARTIFACT_DIR to another absolute path",
        ),
        Ok(bytes) => {
            let message = format!("{at}: {}.{} GiB free", bytes / GIB, bytes % GIB * 10 / GIB);
            let fix = "make room, or set AGENT_ARTIFACT_DIR to a larger disk";
            match bytes {
                0..TOO_LITTLE => Check::red(NAME, message, fix),
                TOO_LITTLE..LITTLE => Check::note(NAME, message, fix),
                _ => Check::ok(NAME, message),
            }
        }
    }
}

/// Returns the bytes that this user can write to the disk of the nearest directory that exists.
fn free(place: &Path) -> std::io::Result<u64> {
    let existing: PathBuf = place
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(Path::new("/"))
        .to_owned();
    let disk = rustix::fs::statvfs(&existing)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
