//! One name in the several spellings that file systems take for it: a clone may come to lie on another one than
//! this. Plain functions over a name whose case is folded, in which HFS+'s invisible code points are left out.

/// What NTFS makes of a name: without a stream behind a colon, and without dots and blanks at the end.
pub(super) fn plain(name: &str) -> &str {
    let name = name.split(':').next().unwrap_or_default();
    name.trim_end_matches(['.', ' '])
}

/// Whether a plain name means `.git`, also by the short name that NTFS gives it.
pub(super) fn is_dot_git(plain: &str) -> bool {
    matches!(plain, ".git" | "git~1")
}

/// Whether a plain name is a short name of `.long`: its first six characters and a small number, or, when those
/// are taken, the beginning of a hash of the name (which git knows as `hashed`) and any number.
pub(super) fn is_short_for(plain: &str, long: &str, hashed: &str) -> bool {
    let Some((head, number)) = plain.split_once('~') else { return false };
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let counted = digits && !number.is_empty() && !number.starts_with('0');
    let first = long.get(..6) == Some(head) && matches!(number, "1" | "2" | "3" | "4");
    first || (counted && plain.len() == 8 && hashed.starts_with(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    // WORKSPACE-19, WORKSPACE-20
    #[test]
    fn names_are_known_in_the_spellings_of_other_file_systems() {
        for name in
            [".git", ".git.", ".git ", ".git . .", ".git::$index_allocation", "git~1", "git~1."]
        {
            assert!(is_dot_git(plain(name)), "{name}");
        }
        for name in [".gitx", "git", "git~2", "x.git", "..git", ".git~1", ""] {
            assert!(!is_dot_git(plain(name)), "{name}");
        }
        let modules = |name: &str| is_short_for(plain(name), "gitmodules", "gi7eba");
        for name in ["gitmod~1", "gitmod~4 .", "gi7eba~1", "gi7eb~10", "gi7e~999", "gitmod~2:x"] {
            assert!(modules(name), "{name}");
        }
        for name in ["gitmod~5", "gitmod", "gi7eba~0", "gi7eba~10", "gi7ebx~1", "git~1"] {
            assert!(!modules(name), "{name}");
        }
    }
}
