//! `scripts/bench audit`: the cost of a record in an empty log and in a long one, the cost of syncing log and head, and the
//! speed of checking a log. BENCH_RECORDS is the number of records in the long log (100,000).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on panics"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use act_audit::{
    Audit, AuditReader, CheckpointStore, Entry, Event, LogVerifier, RepoIdentity, Subject,
};
use act_core::secret::Secrets;
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;

const EACH: u32 = 2_000;

/// Returns a usual record: the summary of a query.
fn entry() -> Entry {
    let digest = "ab".repeat(32);
    let subject = Subject {
        name: "file-tools".into(),
        sha256: digest.clone(),
        world: Some("agentcommand:worlds/tool@1.2.0".into()),
    };
    Entry::new(Event::Query)
        .subject(&subject)
        .object("edit_line")
        .reason("answered")
        .effective(&digest)
        .count("files", 1)
        .count("bytes", 4711)
        .digest("input", Some(&digest))
        .digest("output", Some(&digest))
        .digest("files", Some(&digest))
}

/// Returns the microseconds of one of `count` operations.
fn each(count: u32, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..count).for_each(|_| work());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

fn main() {
    let records: u32 =
        std::env::var("BENCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let dir = tempfile::tempdir_in(".").unwrap();
    let artifacts = ArtifactDir::open_for(&dir.path().canonicalize().unwrap(), None).unwrap();
    let path = artifacts.path().join("state");
    let store = Arc::new(Store::open(&artifacts.state().unwrap(), &path).unwrap());
    let keeper: Arc<dyn CheckpointStore> = Arc::<Store>::clone(&store);
    let open = || {
        let keeper = Arc::clone(&keeper);
        let audit = Audit::new(artifacts.state().unwrap(), &path, keeper, Secrets::default());
        audit
            .about(RepoIdentity {
                identity: "1:2:3".into(),
                head: Some("c0ffee".into()),
                worktree_of: None,
            })
            .of_task("t-abc123")
    };
    let audit = open();
    let append = |audit: &Audit| drop(audit.append(entry()).unwrap());
    append(&audit);
    let short = each(EACH, || append(&audit));
    let ready = each(EACH, || audit.ready().unwrap());
    (0..records).for_each(|_| append(&audit));
    let long = each(EACH, || append(&audit));
    // The first record of a new process also looks up the head and reads the end of the log.
    let first = each(50, || append(&open()));
    let other = open();
    let alternating = each(EACH, || {
        append(&audit);
        append(&other);
    }) / 2.0;
    let settle = each(50, || {
        append(&audit);
        audit.settle().unwrap();
    }) - long;
    let start = Instant::now();
    let mut verifier = LogVerifier::new(store.head().unwrap(), BTreeMap::new(), None);
    let mut reader = AuditReader::open(&artifacts.state().unwrap(), &path).unwrap();
    while let Some(item) = reader.next_line().unwrap() {
        assert!(verifier.push(item, reader.line(), reader.offset()));
    }
    let (found, bytes) = (verifier.finish(), reader.offset());
    assert!(found.ok, "{found:?}");
    let seconds = start.elapsed().as_secs_f64();
    println!("record, short log        {short:8.1} us");
    println!(
        "record, {:>6} before it {long:8.1} us, {:.2} of the short one",
        records,
        long / short
    );
    println!("record, two in turn      {alternating:8.1} us");
    println!("first of a process       {first:8.1} us");
    println!("may the next one begin   {ready:8.1} us");
    println!("edge: sync and head      {settle:8.1} us");
    println!(
        "verify                   {:8.0} records/s, {:.0} MB/s, {} bytes a record",
        found.records as f64 / seconds,
        bytes as f64 / 1e6 / seconds,
        bytes / found.records
    );
}
