//! Variables of a command that nothing sets in a fresh container.

/// Variables that every container has.
const STANDARD: [&str; 12] = [
    "HOME", "PATH", "PWD", "OLDPWD", "TMPDIR", "USER", "SHELL", "HOSTNAME", "IFS", "RANDOM",
    "LANG", "TERM",
];

/// Beginnings of the names that CI systems set: GitHub Actions, GitLab, CircleCI, Travis, Buildkite and others.
const CI: [&str; 13] = [
    "GITHUB_",
    "RUNNER_",
    "ACTIONS_",
    "CI_",
    "GITLAB_",
    "CIRCLE_",
    "TRAVIS_",
    "BUILDKITE_",
    "BITBUCKET_",
    "APPVEYOR_",
    "DRONE_",
    "CIRRUS_",
    "JENKINS_",
];

/// Further names that CI systems and their actions set: Azure, Jenkins, setup-python.
const CI_NAMES: [&str; 11] = [
    "BUILD_SOURCESDIRECTORY",
    "BUILD_ARTIFACTSTAGINGDIRECTORY",
    "SYSTEM_DEFAULTWORKINGDIRECTORY",
    "AGENT_TEMPDIRECTORY",
    "BUILD_NUMBER",
    "WORKSPACE",
    "CI",
    "pythonLocation",
    "Python_ROOT_DIR",
    "Python3_ROOT_DIR",
    "ImageOS",
];

/// Returns whether a CI system sets a variable.
pub fn of_ci(name: &str) -> bool {
    CI.iter().any(|start| name.starts_with(start)) || CI_NAMES.contains(&name)
}

/// Returns the first variable that a script reads, that it does not set itself, and that a fresh container does not have:
/// `GITHUB_WORKSPACE` in `$GITHUB_WORKSPACE/test.sh`. A variable with a default, `${LEVEL:-1}`, is no such variable.
pub fn unset_variable(script: &str) -> Option<&str> {
    let mut single = false;
    let mut rest = script;
    while let Some(at) = rest.find(['$', '\'', '\\']) {
        let (mark, after) = (rest.as_bytes().get(at).copied(), rest.get(at + 1..)?);
        rest = after;
        match mark {
            Some(b'\'') => single = !single,
            // An escaped character has no meaning.
            Some(b'\\') if !single => {
                let skip = rest.chars().next().map_or(0, char::len_utf8);
                rest = rest.get(skip..)?;
            }
            Some(b'$') if !single => {
                let body = rest.strip_prefix('{').unwrap_or(rest);
                let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = body.find(|c| !name(c)).unwrap_or(body.len());
                let (read, next) = (body.get(..end)?, body.get(end..)?);
                let positional = read.is_empty() || read.starts_with(|c: char| c.is_ascii_digit());
                let defaulted = rest.starts_with('{') && next.starts_with([':', '-', '+', '=']);
                if !positional && !defaulted && !STANDARD.contains(&read) && !sets(script, read) {
                    return Some(read);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns whether a script assigns a variable, loops with it or reads it from input. `make FLAGS="$FLAGS"` assigns nothing,
/// because the word is an argument.
fn sets(script: &str, name: &str) -> bool {
    script.match_indices(name).any(|(at, _)| {
        let before = script.get(..at).unwrap_or_default();
        let after = script.get(at + name.len()..).unwrap_or_default();
        let command = before.rsplit(['\n', ';', '&', '|', '(', '{']).next().unwrap_or_default();
        let leading = |word: &str| {
            word.contains('=')
                || ["export", "local", "readonly", "do", "then", "else"].contains(&word)
        };
        let first = command.is_empty() || command.ends_with([' ', '\t']);
        let looped = matches!(command.split_whitespace().next_back(), Some("for" | "read"));
        first
            && (after.starts_with('=') && command.split_whitespace().all(leading)
                || looped && !after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCOUT-B-20
    #[test]
    fn a_variable_that_nothing_sets_is_found_and_others_are_left_alone() {
        for (script, name) in [
            ("$GITHUB_WORKSPACE/test.sh", "GITHUB_WORKSPACE"),
            ("uv pip install --python ${Python_ROOT_DIR} -e .", "Python_ROOT_DIR"),
            ("make check FLAGS=\"$FLAGS\"", "FLAGS"),
            ("cd \"$CI_PROJECT_DIR\" && make test", "CI_PROJECT_DIR"),
        ] {
            assert_eq!(unset_variable(script), Some(name), "{script}");
        }
        for script in [
            "cd \"$HOME\" && ls $TMPDIR",
            "make -j${JOBS:-2} test",
            "echo '$GITHUB_WORKSPACE'",
            "echo \\$GITHUB_WORKSPACE",
            "files=$(find test -name '*.js')\nnode --test $files",
            "for f in tests/*; do sh $f; done",
            "test $? -eq 0 && echo $1 $$",
        ] {
            assert_eq!(unset_variable(script), None, "{script}");
        }
        assert!(of_ci("GITHUB_WORKSPACE") && of_ci("CI_COMMIT_SHA") && !of_ci("FLAGS"));
    }
}
