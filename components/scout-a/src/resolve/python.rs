//! Python: a module is looked for beside the file and in every directory above it, and in a `src` there; a name that is
//! taken from a package may be a module of it.

use super::{Resolver, directory, join, upwards};
use act_kit::world::Import;

pub(super) fn files(resolver: &Resolver<'_>, from: &str, import: &Import) -> Vec<usize> {
    let dots = import.target.chars().take_while(|c| *c == '.').count();
    let module = import.target[dots..].trim().replace('.', "/");
    let bases = match dots {
        0 => roots(from),
        dots => upwards(directory(from)).nth(dots - 1).map(str::to_owned).into_iter().collect(),
    };
    bases
        .iter()
        .map(|base| below(resolver, base, &module, import, dots > 0))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

fn roots(from: &str) -> Vec<String> {
    let above = upwards(directory(from));
    above.flat_map(|above| ["", "src", "lib"].map(|inner| join(above, inner))).collect()
}

fn below(
    resolver: &Resolver<'_>,
    base: &str,
    module: &str,
    import: &Import,
    relative: bool,
) -> Vec<usize> {
    if module.is_empty() && !relative {
        return vec![];
    }
    let place = join(base, module);
    let itself = match module.is_empty() {
        true => resolver.find(&join(&place, "__init__.py")),
        false => file(resolver, &place),
    };
    let mut found = vec![];
    let mut taken_from_itself = import.names.is_empty();
    for name in &import.names {
        match file(resolver, &join(&place, name)) {
            Some(module) => found.push(module),
            None => taken_from_itself = true,
        }
    }
    if taken_from_itself {
        found.extend(itself);
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn file(resolver: &Resolver<'_>, place: &str) -> Option<usize> {
    resolver.first([format!("{place}.py"), format!("{place}/__init__.py"), format!("{place}.pyi")])
}
