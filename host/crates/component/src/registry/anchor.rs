//! The command that takes the head of the audit log to another machine, beside the user's grants and believed on the
//! same terms: nobody else could have written it, nor put it there.

use std::path::Path;

use super::grants::directory_path;
use super::trusted::{self, Owner};

const NAME: &str = "anchor";
const MAX_BYTES: u64 = 16 << 10;

/// What the user wrote, for `/bin/sh`; none where there is nothing. Otherwise why it does not count.
pub fn anchor_command(repo: Option<&Path>) -> Result<Option<String>, String> {
    let Some(place) = directory_path() else { return Ok(None) };
    let not = |why: String| format!("{} {why}", place.join(NAME).display());
    let Some(dir) = trusted::directory(&place, repo, Owner::Caller).map_err(not)? else {
        return Ok(None);
    };
    let text = trusted::text(&dir, NAME, MAX_BYTES, Owner::Caller).map_err(not)?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}
