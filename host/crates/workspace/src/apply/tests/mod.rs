mod conflicts;
mod made;
mod refused;
mod whole_or_not;

use super::*;
use crate::testing::Fixture;

const GO_ON: &dyn Fn() -> bool = &|| false;

fn writer(repo: &Fixture) -> RepoWriter {
    RepoWriter::open(&repo.root, WriteRules::default()).unwrap()
}

/// With and without `openat2`, with and without exchange.
fn each_way(test: impl Fn(&dyn Fn(&Fixture) -> RepoWriter)) {
    test(&writer);
    test(&|repo| writer(repo).without_openat2());
    test(&|repo| writer(repo).without_exchange());
}

fn create(path: &str, text: &str) -> Change {
    Change::Create { path: path.into(), bytes: text.into() }
}

fn at(writer: &RepoWriter, path: &str) -> Version {
    writer.version(path).unwrap().unwrap()
}

fn replace(writer: &RepoWriter, path: &str, text: &str) -> Change {
    Change::Replace { path: path.into(), expect: at(writer, path), bytes: text.into() }
}

fn some_version() -> Version {
    Version { number: 1, digest: digest(b"whatever") }
}

/// Every kind of change that would touch `path`.
fn every_change(path: &str) -> Vec<Change> {
    let (path, expect) = (path.to_owned(), some_version());
    vec![
        Change::Create { path: path.clone(), bytes: b"x".to_vec() },
        Change::Replace { path: path.clone(), expect: expect.clone(), bytes: b"x".to_vec() },
        Change::Delete { path: path.clone(), expect: expect.clone() },
        Change::Move { from: path.clone(), expect, to: "elsewhere".into() },
    ]
}

fn words(writer: &RepoWriter, path: &str) -> Vec<&'static str> {
    let onto = Change::Move { from: "plain".into(), expect: at(writer, "plain"), to: path.into() };
    every_change(path)
        .into_iter()
        .chain([onto])
        .map(|change| writer.apply(&[change], GO_ON).unwrap_err().word().unwrap())
        .collect()
}

const fn is_shared_between_threads<T: Send + Sync + 'static>() {}
const _: () = is_shared_between_threads::<RepoWriter>();
const _: () = is_shared_between_threads::<RepoView>();
