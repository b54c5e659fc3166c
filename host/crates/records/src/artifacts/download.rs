//! Which parts of the tools' caches are downloads: only those are kept between runs. What a tool built is
//! made anew each time, because an old build is how a gate would lie.

/// Paths below the cache, a `*` at the end of a part stands for any ending. Everything below them is kept.
pub(super) const KEPT: [&str; 14] = [
    "pip/http*",
    "npm/_cacache",
    "pnpm/*",
    "yarn/*",
    "uv/simple-*",
    "uv/wheels-*",
    "uv/archive-*",
    "cargo/registry/index",
    // Not `src`: cargo unpacks the archives again, and nobody checks what was unpacked before.
    "cargo/registry/cache",
    "cargo/git/db",
    "go-mod/cache/download",
    "gradle/caches/modules-*",
    "gradle/wrapper/dists",
    "maven/*",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    /// A directory on the way to something that is kept.
    Inside,
    Nothing,
}

pub(super) fn keep(path: &[&str]) -> Keep {
    let mut best = Keep::Nothing;
    for kept in KEPT {
        let mut parts = kept.split('/');
        if !path.iter().all(|part| parts.next().is_none_or(|kept| fits(part, kept))) {
            continue;
        }
        if path.len() >= kept.split('/').count() {
            return Keep::All;
        }
        best = Keep::Inside;
    }
    best
}

fn fits(part: &str, kept: &str) -> bool {
    kept.strip_suffix('*').map_or(part == kept, |start| part.starts_with(start))
}

/// Whether Maven's record of a directory says that all in it was downloaded; what `mvn install` puts there
/// has no repository behind the `>`.
pub(super) fn all_downloaded(remote_repositories: &str) -> bool {
    let mut entries = remote_repositories
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .peekable();
    entries.peek().is_some()
        && entries.all(|line| {
            line.split_once('>')
                .is_some_and(|(_, from)| !from.trim_end_matches('=').trim().is_empty())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARTIFACT-10
    #[test]
    fn downloads_are_kept_and_builds_are_not() {
        for path in [
            "pip/http/a/b",
            "pip/http-v2",
            "npm/_cacache/index-v5",
            "pnpm/v10/files",
            "cargo/registry/cache/index.crates.io",
            "go-mod/cache/download",
            "gradle/caches/modules-2/files-2.1",
            "maven/org",
        ] {
            let parts: Vec<_> = path.split('/').collect();
            assert_eq!(keep(&parts), Keep::All, "{path}");
            assert_eq!(keep(&parts[..1]), Keep::Inside, "{path}");
        }
        for path in [
            "pip/wheels",
            "npm/_logs",
            "cargo/bin",
            "cargo/registry/src",
            "cargo/git/checkouts",
            "go-build",
            "go-mod/example.com",
            "gradle/caches/build-cache-1",
            "gradle/daemon",
            "uv/sdists-v9",
            "xdg",
            "anything",
        ] {
            assert_eq!(keep(&path.split('/').collect::<Vec<_>>()), Keep::Nothing, "{path}");
        }
    }

    // ARTIFACT-10
    #[test]
    fn what_maven_installed_itself_is_no_download() {
        assert!(all_downloaded("#comment\na.jar>central=\na.pom>central=\n"));
        assert!(!all_downloaded("a.jar>=\na.pom>=\n"));
        assert!(!all_downloaded("a.jar>central=\nb.jar>=\n"));
        assert!(!all_downloaded("") && !all_downloaded("#only a comment"));
    }
}
