//! The environment of every step: this list on top of the image's own, nothing of the host's.

/// Used where an image says nothing.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Everything but `PATH`. The repository is read-only at `/workspace`, so tools are sent to `/artifacts`,
/// and tools that rewrite snapshots are told not to.
const FIXED: [(&str, &str); 25] = [
    ("CI", "1"),
    ("HOME", "/artifacts/home"),
    ("TMPDIR", "/artifacts/tmp"),
    ("TEST_DB_PATH", "/artifacts/db"),
    ("SNAPSHOT_DIR", "/artifacts/snapshots"),
    ("INSTA_UPDATE", "no"),
    ("XDG_CACHE_HOME", "/artifacts/cache/xdg"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PIP_CACHE_DIR", "/artifacts/cache/pip"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("UV_CACHE_DIR", "/artifacts/cache/uv"),
    ("npm_config_cache", "/artifacts/cache/npm"),
    // pnpm otherwise puts its store beside the project.
    ("npm_config_store_dir", "/artifacts/cache/pnpm"),
    ("npm_config_update_notifier", "false"),
    ("YARN_CACHE_FOLDER", "/artifacts/cache/yarn"),
    ("CARGO_HOME", "/artifacts/cache/cargo"),
    ("GOCACHE", "/artifacts/cache/go-build"),
    ("GOMODCACHE", "/artifacts/cache/go-mod"),
    ("GRADLE_USER_HOME", "/artifacts/cache/gradle"),
    ("MAVEN_OPTS", "-Dmaven.repo.local=/artifacts/cache/maven"),
    // The tree may belong to another user than the one who runs the steps.
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.directory"),
    ("GIT_CONFIG_VALUE_0", "*"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// `NAME=value`, in the order of the list.
pub(super) fn step_environment(image_path: Option<&str>) -> Vec<String> {
    // What pip installs for a user without root comes first, else the next step does not find it.
    let path = format!("PATH=/artifacts/home/.local/bin:{}", image_path.unwrap_or(DEFAULT_PATH));
    let fixed = FIXED.iter().map(|(name, value)| format!("{name}={value}"));
    fixed.chain([path]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-9
    #[test]
    fn keeps_the_images_path_behind_the_users_own_programs() {
        let of = |path| step_environment(path).pop().unwrap();
        assert_eq!(of(Some("/opt/bin")), "PATH=/artifacts/home/.local/bin:/opt/bin");
        assert!(of(None).ends_with(":/usr/bin:/sbin:/bin"));
    }
}
