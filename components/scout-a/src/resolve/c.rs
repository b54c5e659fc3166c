//! C and C++: beside the file that includes, else the nearest file whose path ends like that.

use super::Resolver;
use act_kit::paths::{directory, normal, resolve};

pub(super) fn files(resolver: &Resolver<'_>, from: &str, target: &str) -> Vec<usize> {
    let beside = resolve(directory(from), target).and_then(|path| resolver.find(&path));
    let found = beside.or_else(|| resolver.nearest(from, &normal(target)?));
    found.into_iter().collect()
}
