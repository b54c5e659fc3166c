//! Directories of the user's own that this program believes, where they lie in the repository, or would.
//!
//! Whoever has his home directory, or the one for configuration, under version control works in a repository that
//! holds them. What the model wrote there would be obeyed, so their names are kept from every tool, also while
//! nothing stands there yet.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links on the way that are followed.
const MAX_LINKS: usize = 40;

/// Every name in the repository at which `place` lies or would lie; the empty one where it is the root.
pub(super) fn names_in(root: &Path, place: &Path) -> BTreeSet<String> {
    let Ok(root) = root.metadata() else { return BTreeSet::new() };
    let is_root = |path: &Path| {
        path.metadata().is_ok_and(|found| (found.dev(), found.ino()) == (root.dev(), root.ino()))
    };
    let mut names = BTreeSet::new();
    for spelling in spellings(place) {
        for above in spelling.ancestors().filter(|above| is_root(above)) {
            let name = spelling.strip_prefix(above).ok().and_then(Path::to_str);
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

/// The path as it is written, and again for each link that leads on, dangling ones as well.
fn spellings(place: &Path) -> Vec<PathBuf> {
    let mut all = vec![plain(place)];
    while let Some(next) = all.last().and_then(|last| one_link_less(last)) {
        if all.len() > MAX_LINKS {
            break;
        }
        all.push(next);
    }
    all
}

/// With the topmost link replaced by where it leads.
fn one_link_less(path: &Path) -> Option<PathBuf> {
    let above: Vec<_> = path.ancestors().collect();
    let link = above.into_iter().rev().find(|above| above.is_symlink())?;
    let target = link.parent()?.join(link.read_link().ok()?);
    Some(plain(&target.join(path.strip_prefix(link).ok()?)))
}

/// Without `.` and `..`; nothing before a `..` is a link when this matters.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(root: &Path, place: &Path) -> Vec<String> {
        names_in(root, place).into_iter().collect()
    }

    // WORKSPACE-54, security line 52
    #[test]
    fn a_directory_that_would_lie_in_the_repository_has_a_name_there() {
        let temp = tempfile::tempdir().unwrap();
        let temp = temp.path().canonicalize().unwrap();
        let repo = temp.join("repo");
        fs::create_dir_all(repo.join("conf/act")).unwrap();
        fs::create_dir_all(temp.join("home")).unwrap();
        symlink(&repo, temp.join("alias")).unwrap();
        symlink("../repo/conf", temp.join("home/.config")).unwrap();
        symlink("../repo/not/there", temp.join("home/.cache")).unwrap();
        symlink(temp.join("home"), repo.join("out")).unwrap();
        for (place, are) in [
            (repo.join(".config/act"), vec![".config/act"]),
            (repo.join("conf/act"), vec!["conf/act"]),
            (temp.join("alias/.config/act"), vec![".config/act"]),
            (temp.join("home/.config/act"), vec!["conf/act"]),
            (temp.join("home/.cache/act"), vec!["not/there/act"]),
            (temp.join("home/../repo/x"), vec!["x"]),
            (repo.join("out/.config/act"), vec!["conf/act", "out/.config/act"]),
            (repo.clone(), vec![""]),
            (temp.join("home/other"), vec![]),
            (temp.join("repo2/act"), vec![]),
        ] {
            assert_eq!(names(&repo, &place), are, "{}", place.display());
        }
        symlink("loop", temp.join("loop")).unwrap();
        assert!(names(&repo, &temp.join("loop/act")).is_empty());
    }
}
