//! Which version of an interface a component was built against, and whether this program has that one.
//!
//! A minor version only ever adds to what a component may import, so a component of an older minor has all that
//! it was built with. One of a newer minor may call what is not there, one of another major means something else.

use std::fmt;

use super::admission::Mismatch;

/// Packages in `wit/`, and what of WASI is linked.
const OURS: [(&str, Version); 7] = [
    ("agentcommand:model", Version { major: 1, minor: 0 }),
    ("agentcommand:progress", Version { major: 1, minor: 0 }),
    ("agentcommand:repo", Version { major: 1, minor: 3 }),
    ("agentcommand:scout", Version { major: 1, minor: 0 }),
    ("agentcommand:tool", Version { major: 1, minor: 0 }),
    ("agentcommand:types", Version { major: 1, minor: 1 }),
    ("wasi", Version { major: 0, minor: 2 }),
];

/// A patch only ever changes words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    major: u32,
    minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Three numbers; a pre-release is no version that anybody has agreed on.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
        let (major, minor, _patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(Self { major, minor })
    }
}

/// The interface without its version, and that.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// Whether a name means this interface, whatever its version.
pub(super) fn is(name: &str, interface: &str) -> bool {
    split(name).0 == split(interface).0
}

/// Refuses the first of these imports or exports that is of another major or a newer minor than ours. Names that are not
/// ours are nobody's business here.
pub(super) fn check<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), Mismatch> {
    names.into_iter().try_for_each(|name| one(name))
}

fn one(name: &str) -> Result<(), Mismatch> {
    let (interface, written) = split(name);
    let package = interface.split_once('/').map_or(interface, |(package, _)| package);
    let of = |ours: &str| package == ours || package.split(':').next() == Some(ours);
    let Some((_, ours)) = OURS.into_iter().find(|(package, _)| of(package)) else {
        return Ok(());
    };
    let built = Version::parse(written);
    // Before 1.0 every minor version is a generation of its own.
    let same = |built: &Version| {
        built.major == ours.major && (ours.major > 0 || built.minor == ours.minor)
    };
    let told = || (name.to_owned(), ours.to_string());
    match built {
        Some(built) if same(&built) && built <= ours => Ok(()),
        Some(built) if same(&built) => {
            let (import, ours) = told();
            Err(Mismatch::Newer { import, ours })
        }
        _ => {
            let (import, ours) = told();
            Err(Mismatch::Foreign { import, ours })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str) -> &'static str {
        match check([&name.to_owned()]) {
            Ok(()) => "ok",
            Err(mismatch) => mismatch.code(),
        }
    }

    // COMPONENT-2, COMPONENT-3
    #[test]
    fn an_older_minor_is_taken_and_a_newer_one_or_another_major_is_not() {
        for (name, says) in [
            ("agentcommand:repo/read@1.3.0", "ok"),
            ("agentcommand:repo/read@1.2.0", "ok"),
            ("agentcommand:repo/read@1.1.7", "ok"),
            ("agentcommand:repo/read@1.0.0", "ok"),
            ("agentcommand:repo/read@1.4.0", "interface_newer"),
            ("agentcommand:repo/whatever@1.4.0", "interface_newer"),
            ("agentcommand:repo/read@2.0.0", "interface_foreign"),
            ("agentcommand:repo/read@0.1.0", "interface_foreign"),
            ("agentcommand:repo/read@1.2.0-rc.1", "interface_foreign"),
            ("agentcommand:repo/read@1.1", "interface_foreign"),
            ("agentcommand:repo/read", "interface_foreign"),
            ("agentcommand:scout/scout@1.1.0", "interface_newer"),
            ("wasi:io/streams@0.2.0", "ok"),
            ("wasi:io/streams@0.2.99", "ok"),
            ("wasi:io/streams@0.3.0", "interface_foreign"),
            ("evil:shell/run@7.0.0", "ok"),
            ("agentcommand:shell/run@7.0.0", "ok"),
        ] {
            assert_eq!(judged(name), says, "{name}");
        }
    }

    // COMPONENT-3
    #[test]
    fn a_refusal_names_both_versions() {
        for name in ["agentcommand:repo/read@1.9.0", "agentcommand:repo/read@3.0.0"] {
            let told = check([&name.to_owned()]).unwrap_err().to_string();
            assert!(told.contains(name) && told.contains("1.3"), "{told}");
        }
    }

    // COMPONENT-1
    #[test]
    fn the_versions_are_those_of_the_files() {
        let deps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../wit/deps");
        let mut packages = vec![];
        for entry in std::fs::read_dir(deps).unwrap() {
            let dir = entry.unwrap().path();
            let file = dir.join(dir.file_name().unwrap()).with_extension("wit");
            let text = std::fs::read_to_string(file).unwrap();
            let line = text.lines().next().unwrap();
            let name = line.strip_prefix("package ").unwrap().trim_end_matches(';');
            let (package, version) = split(name);
            packages.push((package.to_owned(), Version::parse(version).unwrap()));
        }
        packages.sort();
        let ours: Vec<_> = OURS.into_iter().filter(|(name, _)| *name != "wasi").collect();
        let ours: Vec<_> =
            ours.into_iter().map(|(name, version)| (name.to_owned(), version)).collect();
        assert_eq!(packages, ours);
    }
}
