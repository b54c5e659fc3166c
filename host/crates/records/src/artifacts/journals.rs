//! Reading the journals of earlier tasks; makes nothing.

use std::fs::File;
use std::path::Path;

use rustix::fs::FileType;

use act_fs::Dir;

/// Of the tasks that were written about last, the newest first, at most `most`; none where there is no such
/// directory. `path` is ARTIFACT_DIR.
pub fn newest_journals(path: &Path, most: usize) -> Vec<File> {
    find(path, most).unwrap_or_default()
}

fn find(path: &Path, most: usize) -> std::io::Result<Vec<File>> {
    let dir = Dir::open(path)?.subdirectory("state")?.subdirectory("journal")?;
    let mut names = vec![];
    for name in dir.names(usize::MAX)? {
        let Ok(name) = name.to_str() else { continue };
        if name.starts_with("t-") && name.ends_with(".jsonl") {
            let stat = dir.stat(name)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                names.push((stat.st_mtime, stat.st_mtime_nsec, name.to_owned()));
            }
        }
    }
    names.sort_unstable();
    let newest = names.iter().rev().take(most);
    Ok(newest.filter_map(|(.., name)| dir.file(name.as_str()).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    #[test]
    fn the_newest_come_first_and_nothing_else_is_taken_for_one() {
        let temp = tempfile::tempdir().unwrap();
        assert!(newest_journals(temp.path(), 9).is_empty());
        let dir = temp.path().join("state/journal");
        fs::create_dir_all(dir.join("t-dir.jsonl")).unwrap();
        for (at, name) in ["t-b.jsonl", "t-a.jsonl", "notes"].into_iter().enumerate() {
            fs::write(dir.join(name), name).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at as u64 + 9);
            File::open(dir.join(name)).unwrap().set_modified(time).unwrap();
        }
        std::os::unix::fs::symlink("notes", dir.join("t-link.jsonl")).unwrap();
        let read = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            text
        };
        let names =
            |most| newest_journals(temp.path(), most).into_iter().map(read).collect::<Vec<_>>();
        assert_eq!(names(9), ["t-a.jsonl", "t-b.jsonl"]);
        assert_eq!(names(1), ["t-a.jsonl"]);
    }
}
