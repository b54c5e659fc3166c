//! The tidying of a cache (see `cache`) as a script, for one that lies on another machine: there only a container
//! can do it. A POSIX shell, `find`, `grep`, `rm` and `chown` have to be in its image; without them it fails.

use super::download::KEPT;

/// All but downloads goes from below `root`, and what stays belongs to `ids`.
pub fn tidying_script(root: &str, (uid, gid): (u32, u32)) -> String {
    let mut above: Vec<&str> =
        KEPT.iter().flat_map(|kept| kept.match_indices('/').map(|(at, _)| &kept[..at])).collect();
    above.sort_unstable();
    above.dedup();
    let (kept, above) = (KEPT.join("|"), above.join("|"));
    format!(
        r#"set -eu
tidy() {{
  for x in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$x" ] || [ -L "$x" ] || continue
    case ${{x#"{root}/"}} in
      {kept}) ;;
      {above}) if [ -d "$x" ] && [ ! -L "$x" ]; then tidy "$x"; else rm -rf "$x"; fi ;;
      *) rm -rf "$x" ;;
    esac
  done
}}
tidy "{root}"
if [ -L "{root}/maven" ]; then rm -f "{root}/maven"; fi
if [ -d "{root}/maven" ]; then
  find "{root}/maven" -type d -exec /bin/sh -euc '
    entries() {{ grep -v "^[[:space:]]*#" "$1" | grep "[^[:space:]]"; }}
    for d; do
      r=$d/_remote.repositories
      if [ -f "$r" ] && [ ! -L "$r" ] && entries "$r" | grep -q ">" &&
        ! entries "$r" | grep -qv ">.*[^=[:space:]]"; then continue; fi
      for x in "$d"/* "$d"/.[!.]* "$d"/..?*; do
        if [ -L "$x" ] || {{ [ -e "$x" ] && [ ! -d "$x" ]; }}; then rm -f "$x"; fi
      done
    done' sh {{}} +
fi
find "{root}" ! -user {uid} -exec chown -h {uid}:{gid} {{}} +
"#
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn tidied(root: &Path, path: &str) -> bool {
        let about = std::fs::metadata(root).unwrap();
        let script = tidying_script(root.to_str().unwrap(), (about.uid(), about.gid()));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).env("PATH", path).output().unwrap().status.success()
    }

    // ARTIFACT-10
    #[test]
    fn the_script_keeps_what_is_kept_here_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a cache");
        let kept = [
            "npm/_cacache/x",
            "pip/http-v2/a/b",
            "pnpm/v10/files/x",
            "uv/archive-v0/x",
            "cargo/registry/cache/index/x",
            "cargo/git/db/x",
            "go-mod/cache/download/x",
            "gradle/caches/modules-2/files/x",
            "maven/org/a/1/a.jar",
        ];
        let gone = [
            "npm/_logs/x",
            "pip/wheels/x",
            "pip/.hidden/x",
            "..odd",
            "go-build/00/x",
            "cargo/bin/tool",
            "cargo/registry/src/x",
            "cargo/registry/cache-not/x",
            "gradle/caches/build-cache-1/x",
            "maven/my/app/1/app.jar",
            "maven/no/record/1/x.jar",
            "stray",
            "a b\nc/$(x)/y",
        ];
        for file in kept.iter().chain(&gone) {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        let record = |version: &str, text: &str| {
            let file = root.join("maven").join(version).join("_remote.repositories");
            std::fs::write(file, text).unwrap();
        };
        record("org/a/1", "#comment\n\na.jar>central=\n");
        record("my/app/1", "app.pom>central=\napp.jar>=\n");
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("stays"), "x").unwrap();
        symlink(&outside, root.join("go-mod/cache/link")).unwrap();
        symlink(&outside, root.join("yarn")).unwrap();

        assert!(!tidied(&root, "/none"), "not without its tools");
        assert!(tidied(&root, "/usr/bin:/bin"));

        for file in kept {
            assert!(root.join(file).exists(), "{file}");
        }
        for file in gone.iter().chain(&["go-mod/cache/link", "yarn"]) {
            assert!(std::fs::symlink_metadata(root.join(file)).is_err(), "{file}");
        }
        assert!(outside.join("stays").exists());
    }
}
