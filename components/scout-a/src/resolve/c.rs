//! C and C++: an included file is searched beside the including one, else the nearest path with that ending is taken.

use super::Resolver;
use act_kit::paths::{directory, normal, resolve};

pub(super) fn files(resolver: &Resolver<'_>, from: &str, target: &str) -> Vec<usize> {
    let beside = resolve(directory(from), target).and_then(|path| resolver.find(&path));
    let found = beside.or_else(|| resolver.nearest(from, &normal(target)?));
    found.into_iter().collect()
}
