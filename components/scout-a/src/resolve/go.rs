//! Go: a package is a directory of a module. `go.mod` names the module.

use super::{DIRECTORY, Resolver};
use crate::same_package::OWN_PACKAGE;
use act_kit::paths::join;

pub(super) fn files(resolver: &Resolver<'_>, target: &str) -> Vec<usize> {
    // `same_package` resolves names of the file's own package.
    if target == OWN_PACKAGE {
        return vec![];
    }
    let modules = resolver.manifests.go_modules.iter();
    let below = modules.filter_map(|(name, root)| {
        let rest = target.strip_prefix(name.as_str())?;
        (rest.is_empty() || rest.starts_with('/'))
            .then(|| (name.len(), join(root, rest.trim_start_matches('/'))))
    });
    let Some((_, directory)) = below.max() else { return vec![] };
    let files =
        resolver.by_directory.get(directory.as_str()).map(Vec::as_slice).unwrap_or_default();
    let code = files.iter().filter(|at| {
        let path = resolver.path(**at);
        path.ends_with(".go") && !path.ends_with("_test.go")
    });
    code.take(DIRECTORY).copied().collect()
}
