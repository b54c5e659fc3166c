//! A proposal as a patch in git's format, byte for byte as the files are, so that `git apply` takes it (pure).

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline, diff_ratio, group_diff_ops};

use super::proposal::{Blob, ProposedFile};

/// Lines around a change.
const AROUND: usize = 3;
/// Of one file; a difference that takes longer to find is larger than it need be, and as right.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of a file whose content moved, the old name is not told again. `prefix` stands before every path: from the top of
/// git's working tree to the root of the repository, empty or with a `/` at its end.
pub fn patch(files: &[ProposedFile], prefix: &[u8]) -> Vec<u8> {
    let moved = |path: &str| files.iter().any(|file| file.from.as_deref() == Some(path));
    let mut out = vec![];
    for file in files.iter().filter(|file| file.after.is_some() || !moved(&file.path)) {
        let from = file.from.as_ref().and_then(|from| files.iter().find(|file| file.path == *from));
        one(&mut out, file, from, prefix);
    }
    out
}

fn one(out: &mut Vec<u8>, file: &ProposedFile, from: Option<&ProposedFile>, prefix: &[u8]) {
    let old_name = from.map_or(&file.path, |from| &from.path);
    let (old, new) = (from.map_or(&file.before, |from| &from.before).as_ref(), file.after.as_ref());
    let name = |side: &str, path: &str| quoted(side, &[prefix, path.as_bytes()].concat());
    let (a, b) = (name("a/", old_name), name("b/", &file.path));
    let mut say = |line: &str| {
        out.extend(line.as_bytes());
        out.push(b'\n');
    };
    say(&format!("diff --git {a} {b}"));
    match (old, new) {
        (None, Some(new)) => say(&format!("new file mode {}", mode(new))),
        (Some(old), None) => say(&format!("deleted file mode {}", mode(old))),
        (Some(old), Some(new)) if mode(old) != mode(new) => {
            say(&format!("old mode {}", mode(old)));
            say(&format!("new mode {}", mode(new)));
        }
        _ => {}
    }
    let text = |blob: Option<&Blob>| blob.map(|blob| blob.bytes.clone()).unwrap_or_default();
    let (old_text, new_text) = (text(old), text(new));
    let (old_lines, new_lines) = (lines(&old_text), lines(&new_text));
    let deadline = Some(Instant::now() + PATIENCE);
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, deadline);
    if from.is_some() {
        let alike = diff_ratio(&ops, old_lines.len(), new_lines.len());
        say(&format!("similarity index {}%", (alike * 100.0).floor()));
        say(&format!("rename from {}", name("", old_name)));
        say(&format!("rename to {}", name("", &file.path)));
    }
    let hunks = group_diff_ops(ops, AROUND);
    if hunks.is_empty() {
        return;
    }
    let side = |blob: Option<&Blob>, name: &str| match blob {
        // What follows a tab is no part of the name.
        Some(_) if name.contains(' ') => format!("{name}\t"),
        Some(_) => name.to_owned(),
        None => "/dev/null".to_owned(),
    };
    say(&format!("--- {}", side(old, &a)));
    say(&format!("+++ {}", side(new, &b)));
    for hunk in hunks {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let range = |from: usize, to: usize| match to - from {
            // Of nothing: the line before it.
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

fn put(out: &mut Vec<u8>, sign: u8, lines: &[&[u8]]) {
    for line in lines {
        out.push(sign);
        out.extend(*line);
        if !line.ends_with(b"\n") {
            out.extend(b"\n\\ No newline at end of file\n");
        }
    }
}

/// By `\n` alone, as git counts.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn mode(blob: &Blob) -> &'static str {
    if blob.is_executable() { "100755" } else { "100644" }
}

/// As git writes a name: in quotes when it holds what would be read as something else.
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
mod tests {
    use super::*;

    fn blob(text: &str) -> Option<Blob> {
        Some(Blob::new(text.as_bytes(), 0o644))
    }

    fn file(path: &str, before: Option<Blob>, after: Option<Blob>) -> ProposedFile {
        ProposedFile { path: path.into(), from: None, before, after }
    }

    fn text(files: &[ProposedFile]) -> String {
        String::from_utf8(patch(files, b"")).unwrap()
    }

    // WORKSPACE-53
    #[test]
    fn a_changed_file_has_three_lines_around_and_its_last_line_as_it_is() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10";
        let files = [file("n", blob(before), blob(&before.replace("5\n", "five\r\n")))];
        assert_eq!(
            text(&files),
            "diff --git a/n b/n\n--- a/n\n+++ b/n\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\r\n 6\n 7\n 8\n"
        );
        let files = [file("n", blob("a"), blob("a\n"))];
        assert_eq!(
            text(&files),
            "diff --git a/n b/n\n--- a/n\n+++ b/n\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"
        );
    }

    // WORKSPACE-53
    #[test]
    fn files_that_come_go_and_are_empty() {
        let files = [
            file("come", None, blob("x\n")),
            file("empty", None, blob("")),
            file("gone", Some(Blob::new(&b"y\n"[..], 0o755)), None),
        ];
        assert_eq!(
            text(&files),
            "diff --git a/come b/come\nnew file mode 100644\n--- /dev/null\n+++ b/come\n@@ -0,0 +1,1 @@\n+x\n\
             diff --git a/empty b/empty\nnew file mode 100644\n\
             diff --git a/gone b/gone\ndeleted file mode 100755\n--- a/gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-y\n"
        );
    }

    // WORKSPACE-53
    #[test]
    fn a_moved_file_is_told_once() {
        let mut moved = file("new name", None, blob("x\n"));
        moved.from = Some("old".into());
        let files = [moved, file("old", blob("x\n"), None)];
        assert_eq!(
            text(&files),
            "diff --git a/old b/new name\nsimilarity index 100%\nrename from old\nrename to new name\n"
        );
    }

    // WORKSPACE-53
    #[test]
    fn below_the_top_of_git_every_name_is_told_from_there() {
        let mut moved = file("new", None, blob("x\n"));
        moved.from = Some("old".into());
        let files = [moved, file("old", blob("x\n"), None), file("n", None, blob("y\n"))];
        let text = String::from_utf8(patch(&files, b"pa\xffck/")).unwrap();
        assert_eq!(
            text,
            "diff --git \"a/pa\\377ck/old\" \"b/pa\\377ck/new\"\nsimilarity index 100%\n\
             rename from \"pa\\377ck/old\"\nrename to \"pa\\377ck/new\"\n\
             diff --git \"a/pa\\377ck/n\" \"b/pa\\377ck/n\"\nnew file mode 100644\n--- /dev/null\n\
             +++ \"b/pa\\377ck/n\"\n@@ -0,0 +1,1 @@\n+y\n"
        );
    }

    // WORKSPACE-53
    #[test]
    fn a_name_cannot_be_read_as_anything_else() {
        assert_eq!(quoted("a/", "x\n+++ b/y\"é".as_bytes()), "\"a/x\\012+++ b/y\\\"\\303\\251\"");
        let files = [file("a b", blob(""), blob("x\n"))];
        assert!(text(&files).contains("\n--- a/a b\t\n+++ b/a b\t\n"), "{}", text(&files));
    }
}
