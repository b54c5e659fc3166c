//! Proposals: the changes of a dry run, which are shown as a patch and applied later. All files are changed or none,
//! and each only if it still holds the bytes that the dry run saw.

use std::sync::Arc;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline, diff_ratio, group_diff_ops};

use super::copy_set::VerificationScope;
use super::history::HASH;
use super::paths::RepoPath;
use super::reading::digest;
use super::transaction::{FileState, Metadata};
use super::writer::{Applied, Checked, Content, EditError, RepoWriter};

/// The mode of a new file, before the user's mask.
pub(super) const NEW_FILE: u32 = 0o644;
/// Number of unchanged lines around a change in a patch.
const CONTEXT_LINES: usize = 3;
/// Maximum time to compare two versions of a file. A comparison that is cut short is correct, but longer than
/// necessary.
const PATIENCE: Duration = Duration::from_secs(2);

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub bytes: Arc<[u8]>,
    /// The permission bits.
    pub mode: u32,
    pub sha256: String,
}

impl Blob {
    pub fn new(bytes: impl Into<Arc<[u8]>>, mode: u32) -> Self {
        let bytes = bytes.into();
        let sha256 = digest(&bytes);
        Self { bytes, mode, sha256 }
    }

    /// Returns whether the owner may execute the file.
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// One file of a proposal. A missing blob means that there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedFile {
    pub path: String,
    /// The file that this one was moved from. The proposal contains its deletion as well.
    pub from: Option<String>,
    pub before: Option<Blob>,
    pub after: Option<Blob>,
}

/// The state of a proposed file in the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposedFileState {
    AsBefore,
    AsProposed,
    /// The file changed since the dry run.
    Changed,
}

impl RepoWriter {
    /// Compares the repository with a proposal, and returns the state of each file.
    ///
    /// # Errors
    /// The first path that may not be written, as for [`RepoWriter::apply`].
    pub fn proposal_states(
        &self,
        files: &[ProposedFile],
    ) -> Result<Vec<ProposedFileState>, EditError> {
        let scope = self.scope();
        files.iter().map(|file| Ok(self.proposed_state(file, files, &scope)?.1)).collect()
    }

    fn proposed_state(
        &self,
        file: &ProposedFile,
        all: &[ProposedFile],
        scope: &VerificationScope<'_>,
    ) -> Result<(RepoPath, ProposedFileState), EditError> {
        let path = self.permitted(&file.path, scope)?;
        // A proposal may replace a file by a directory, or a directory by a file.
        let deleted = |path: &str| all.iter().any(|f| f.path == path && f.after.is_none());
        let below = format!("{path}/");
        let made_below = || all.iter().any(|f| f.after.is_some() && f.path.starts_with(&below));
        let mut above = path.as_str().match_indices('/').filter_map(|(at, _)| file.path.get(..at));
        let found = match self.file_state(&path) {
            Err(EditError::NotAFile { .. }) if above.any(deleted) => FileState::Nothing,
            found => found?,
        };
        let is = |blob: &Option<Blob>| match (&found, blob) {
            (FileState::Nothing, None) => true,
            (FileState::File { digest, stat, .. }, Some(blob)) => {
                *digest == blob.sha256 && (stat.st_mode & 0o100 != 0) == blob.is_executable()
            }
            (FileState::Other, None) => file.after.is_none() && made_below(),
            _ => false,
        };
        let state = match (is(&file.before), is(&file.after)) {
            (true, _) => ProposedFileState::AsBefore,
            (_, true) => ProposedFileState::AsProposed,
            _ => ProposedFileState::Changed,
        };
        Ok((path, state))
    }

    /// Applies a proposal, all files or none. A file that is as proposed already was written by an earlier, killed
    /// attempt. It counts as changed by this task, but is not among the returned changes.
    ///
    /// # Errors
    /// The errors of [`RepoWriter::apply`]; `Conflict` for a file that changed since the dry run.
    pub fn apply_proposal(
        &self,
        files: &[ProposedFile],
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<Applied>, EditError> {
        let scope = self.scope();
        let (mut checked, mut made_before) = (vec![], vec![]);
        for file in files {
            let (path, state) = self.proposed_state(file, files, &scope)?;
            let list = match state {
                ProposedFileState::AsBefore => &mut checked,
                ProposedFileState::AsProposed => &mut made_before,
                ProposedFileState::Changed => {
                    let path = file.path.clone();
                    return Err(EditError::Conflict { path, current: None });
                }
            };
            list.push(self.checked(path, file, &scope)?);
        }
        // A directory may have to take the place of a file, so deletions are made first.
        checked.sort_by_key(|change| change.op != "delete");
        let made = self.make(self.spent(), checked, stopped)?;
        self.record(made_before);
        Ok(made)
    }

    fn checked(
        &self,
        path: RepoPath,
        file: &ProposedFile,
        scope: &VerificationScope<'_>,
    ) -> Result<Checked, EditError> {
        let expect = file.before.as_ref().map(|blob| blob.sha256.clone());
        let before = file.before.as_ref().map_or(Content::Nothing, |blob| Content::of(&blob.bytes));
        let op = match (&file.before, &file.after) {
            (_, None) => "delete",
            (None, Some(_)) => "create",
            (Some(_), Some(_)) => "replace",
        };
        let after = file.after.as_ref();
        let bytes = after.map(|blob| blob.bytes.to_vec()).unwrap_or_default();
        let mode = after.map(|blob| blob.mode).filter(|mode| op == "create" && *mode != NEW_FILE);
        let like = match file.from.as_deref().filter(|_| op == "create") {
            Some(from) => self.metadata(&self.permitted(from, scope)?)?,
            None => None,
        };
        Ok(Checked { path, to: None, bytes, expect, before, op, mode, like })
    }

    /// Reads the metadata of a file that is moved, or returns `None` where an earlier attempt has moved it already.
    fn metadata(&self, from: &RepoPath) -> Result<Option<Metadata>, EditError> {
        let FileState::File { file, .. } = self.file_state(from)? else {
            return Ok(None);
        };
        let failed = |error: std::io::Error| EditError::Failed {
            path: from.to_string(),
            why: error.to_string(),
        };
        Metadata::of(file).map(Some).map_err(failed)
    }
}

/// Returns a proposal as a patch that `git apply` accepts, with the bytes of the files as they are. The deletion of a
/// moved file is part of the move. `prefix` is put before every path: it is the path from the top of git's working tree
/// to the root of the repository, empty or with a `/` at its end.
pub fn patch(files: &[ProposedFile], prefix: &[u8]) -> Vec<u8> {
    patch_naming(files, prefix, ObjectNames::Sha1)
}

/// The digest by which the repository names its objects. `git apply` asks for the names of binary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectNames {
    Sha1,
    Sha256,
}

impl ObjectNames {
    /// Returns the name of a blob, or of no file.
    fn name(self, blob: Option<&Blob>) -> String {
        let digits = match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        };
        let Some(Blob { bytes, .. }) = blob else { return "0".repeat(digits) };
        match self {
            Self::Sha1 => gix_object::compute_hash(HASH, gix_object::Kind::Blob, bytes)
                .map(|id| id.to_string())
                .unwrap_or_default(),
            Self::Sha256 => digest(&[format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()),
        }
    }
}

/// Returns a patch like [`patch`], in which binary files have the names of their objects.
pub(super) fn patch_naming(files: &[ProposedFile], prefix: &[u8], names: ObjectNames) -> Vec<u8> {
    let moved = |path: &str| files.iter().any(|file| file.from.as_deref() == Some(path));
    let mut out = vec![];
    for file in files.iter().filter(|file| file.after.is_some() || !moved(&file.path)) {
        let from = file.from.as_ref().and_then(|from| files.iter().find(|file| file.path == *from));
        patch_file(&mut out, file, from, (prefix, names));
    }
    out
}

fn patch_file(
    out: &mut Vec<u8>,
    file: &ProposedFile,
    from: Option<&ProposedFile>,
    (prefix, names): (&[u8], ObjectNames),
) {
    let old_name = from.map_or(&file.path, |from| &from.path);
    let (old, new) = (from.map_or(&file.before, |from| &from.before).as_ref(), file.after.as_ref());
    let name = |side: &str, path: &str| quoted(side, &[prefix, path.as_bytes()].concat());
    let (a, b) = (name("a/", old_name), name("b/", &file.path));
    let mut line = |text: &str| {
        out.extend(text.as_bytes());
        out.push(b'\n');
    };
    line(&format!("diff --git {a} {b}"));
    match (old, new) {
        (None, Some(new)) => line(&format!("new file mode {}", mode(new))),
        (Some(old), None) => line(&format!("deleted file mode {}", mode(old))),
        (Some(old), Some(new)) if mode(old) != mode(new) => {
            line(&format!("old mode {}", mode(old)));
            line(&format!("new mode {}", mode(new)));
        }
        _ => {}
    }
    let text = |blob: Option<&Blob>| blob.map(|blob| blob.bytes.clone()).unwrap_or_default();
    let (old_text, new_text) = (text(old), text(new));
    if old_text.contains(&0) || new_text.contains(&0) {
        if from.is_some() {
            // Only whole files are found to be moved here.
            line("similarity index 100%");
            line(&format!("rename from {}", name("", old_name)));
            line(&format!("rename to {}", name("", &file.path)));
        }
        if old_text != new_text {
            let same_mode = old.zip(new).map(|(old, new)| (mode(old), mode(new)));
            let same_mode = same_mode.filter(|(old, new)| old == new);
            let ending = same_mode.map(|(mode, _)| format!(" {mode}")).unwrap_or_default();
            line(&format!("index {}..{}{ending}", names.name(old), names.name(new)));
            line("GIT binary patch");
            // The second part is what `git apply -R` writes.
            put_binary(out, &new_text);
            put_binary(out, &old_text);
        }
        return;
    }
    let (old_lines, new_lines) = (lines(&old_text), lines(&new_text));
    let deadline = Some(Instant::now() + PATIENCE);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, deadline);
    if from.is_some() {
        let alike = diff_ratio(&ops, old_lines.len(), new_lines.len());
        line(&format!("similarity index {}%", (alike * 100.0).floor()));
        line(&format!("rename from {}", name("", old_name)));
        line(&format!("rename to {}", name("", &file.path)));
    }
    let hunks = group_diff_ops(ops, CONTEXT_LINES);
    if hunks.is_empty() {
        return;
    }
    let side = |blob: Option<&Blob>, name: &str| match blob {
        // git reads a time after a blank, so a name with a blank ends in a tab.
        Some(_) if name.contains(' ') => format!("{name}\t"),
        Some(_) => name.to_owned(),
        None => "/dev/null".to_owned(),
    };
    line(&format!("--- {}", side(old, &a)));
    line(&format!("+++ {}", side(new, &b)));
    for hunk in hunks {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let range = |from: usize, to: usize| match to - from {
            // An empty range is named by the line before it.
            0 => format!("{from},0"),
            count => format!("{},{count}", from + 1),
        };
        let old = range(first.old_range().start, last.old_range().end);
        let new = range(first.new_range().start, last.new_range().end);
        out.extend(format!("@@ -{old} +{new} @@\n").as_bytes());
        for op in &hunk {
            let (tag, old, new) = op.as_tag_tuple();
            let old = old_lines.get(old).unwrap_or_default();
            let new = new_lines.get(new).unwrap_or_default();
            if tag == DiffTag::Equal {
                put(out, b' ', old);
                continue;
            }
            put(out, b'-', old);
            put(out, b'+', new);
        }
    }
}

/// Writes bytes as git does in a binary patch: compressed, in base 85, and with an empty line at the end.
fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    use std::io::Write as _;
    const DIGITS: &[u8; 85] =
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    /// Bytes in one line.
    const LINE: usize = 52;
    let mut deflate = gix_zlib::stream::deflate::Write::new(vec![], gix_zlib::Compression::DEFAULT);
    // Writing to memory does not fail.
    let _ = deflate.write_all(bytes).and_then(|()| deflate.flush());
    out.extend(format!("literal {}\n", bytes.len()).as_bytes());
    for line in deflate.into_inner().chunks(LINE) {
        // The first letter of a line is the number of its bytes.
        let length = u8::try_from(line.len()).unwrap_or_default();
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        for four in line.chunks(4) {
            let mut padded = [0; 4];
            padded[..four.len()].copy_from_slice(four);
            let mut value = u32::from_be_bytes(padded);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = DIGITS[(value % 85) as usize];
                value /= 85;
            }
            out.extend(digits);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn put(out: &mut Vec<u8>, sign: u8, lines: &[&[u8]]) {
    for line in lines {
        out.push(sign);
        out.extend(*line);
        if !line.ends_with(b"\n") {
            out.extend(b"\n\\ No newline at end of file\n");
        }
    }
}

/// Splits at `\n` alone, as git does.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn mode(blob: &Blob) -> &'static str {
    if blob.is_executable() { "100755" } else { "100644" }
}

/// Quotes a name as git does, if it contains characters that would be read as something else.
fn quoted(side: &str, path: &[u8]) -> String {
    let plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if path.iter().copied().all(plain) {
        return format!("{side}{}", String::from_utf8_lossy(path));
    }
    let mut out = format!("\"{side}");
    for byte in path.iter().copied() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            byte if plain(byte) => out.push(char::from(byte)),
            byte => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
