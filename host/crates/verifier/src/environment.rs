//! The environment of every step: this list on top of the image's own, nothing of the host's.

/// Used where an image says nothing.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Everything but `PATH`. The repository is read-only at `/workspace`, so tools are sent to `/artifacts`,
/// and tools that rewrite snapshots are told not to.
const FIXED: [(&str, &str); 26] = [
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
    // What installing built is a build, not a download.
    ("npm_config_side_effects_cache", "false"),
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

/// Where the tree cannot be written, tools that can build elsewhere are sent there.
const READONLY: [(&str, &str); 3] = [
    ("CARGO_TARGET_DIR", "/artifacts/build/target"),
    ("PYTEST_ADDOPTS", "-pno:cacheprovider"),
    ("PYTHONPYCACHEPREFIX", "/artifacts/build/pycache"),
];

/// Where certificates that `ca_bundle` names are put, and who must be told of it.
pub(crate) const CA_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
const CA_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
];

/// `NAME=value`, in the order of the lists.
pub(crate) fn step_environment(
    image_path: Option<&str>,
    readonly: bool,
    ca_bundle: bool,
) -> Vec<String> {
    // What pip installs for a user without root comes first, else the next step does not find it.
    let path = format!("PATH=/artifacts/home/.local/bin:{}", image_path.unwrap_or(DEFAULT_PATH));
    let readonly = READONLY.iter().filter(|_| readonly);
    let fixed = FIXED.iter().chain(readonly).map(|(name, value)| format!("{name}={value}"));
    let ca = CA_VARIABLES.iter().filter(|_| ca_bundle).map(|name| format!("{name}={CA_BUNDLE}"));
    fixed.chain(ca).chain([path]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-9
    #[test]
    fn keeps_the_images_path_behind_the_users_own_programs() {
        let of = |path| step_environment(path, false, false).pop().unwrap();
        assert_eq!(of(Some("/opt/bin")), "PATH=/artifacts/home/.local/bin:/opt/bin");
        assert!(of(None).ends_with(":/usr/bin:/sbin:/bin"));
    }

    // VERIFIER-9
    #[test]
    fn a_readonly_view_and_a_ca_bundle_add_what_they_need() {
        let all = step_environment(None, true, true);
        assert!(all.contains(&"CARGO_TARGET_DIR=/artifacts/build/target".to_owned()));
        assert!(all.contains(&format!("NODE_EXTRA_CA_CERTS={CA_BUNDLE}")));
        assert_eq!(step_environment(None, false, false).len(), FIXED.len() + 1);
    }
}
