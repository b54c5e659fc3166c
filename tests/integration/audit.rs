//! One audit log for many processes, with a real store beside it: one chain, whoever is killed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use act_audit::{
    Audit, AuditReader, CheckpointStore, Entry, Event, LogLine, LogVerification, LogVerifier,
    Record,
};
use act_core::secret::Secrets;
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;

const CHILD: &str = "ACT_TEST_AUDIT_CHILD";

struct Place {
    dir: tempfile::TempDir,
}

/// The handles of one process; a process opens a store once.
struct Process {
    audit: Audit,
    store: Arc<Store>,
}

fn open(artifacts: &Path) -> Process {
    let dir = ArtifactDir::open_for(artifacts, None).unwrap();
    let path = artifacts.join("state");
    let store = Arc::new(Store::open(&dir.state().unwrap(), &path).unwrap());
    let keeper: Arc<dyn CheckpointStore> = Arc::<Store>::clone(&store);
    let audit = Audit::new(dir.state().unwrap(), &path, keeper, Secrets::default());
    Process { audit, store }
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn artifacts(&self) -> PathBuf {
        self.dir.path().join("artifacts")
    }

    fn log(&self) -> PathBuf {
        self.artifacts().join("state/audit.jsonl")
    }

    fn reader(&self) -> AuditReader {
        let dir = ArtifactDir::open_for(&self.artifacts(), None).unwrap();
        AuditReader::open(&dir.state().unwrap(), &self.artifacts().join("state")).unwrap()
    }

    fn records(&self) -> Vec<Record> {
        let mut reader = self.reader();
        std::iter::from_fn(|| reader.next_line().unwrap())
            .filter_map(
                |item| if let LogLine::Record(record) = item { Some(*record) } else { None },
            )
            .collect()
    }

    fn verify(&self, process: &Process) -> LogVerification {
        let mut verifier = LogVerifier::new(process.store.head().unwrap(), BTreeMap::new(), None);
        let mut reader = self.reader();
        while let Some(item) = reader.next_line().unwrap() {
            if !verifier.push(item, reader.line(), reader.offset()) {
                break;
            }
        }
        verifier.finish()
    }

    /// A process that appends so many records as `name` and prints the number of each that it was answered.
    fn child(&self, name: &str, count: u64) -> Child {
        self.child_with(name, count, None)
    }

    fn child_with(&self, name: &str, count: u64, fail_point: Option<&str>) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "audit::another_process_appends", "--nocapture"]);
        child.env(CHILD, format!("{name} {count} {}", self.artifacts().display()));
        child.envs(fail_point.map(|place| ("ACT_FAIL_POINT", place)));
        child.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
    }
}

/// The answer that another process got.
fn answered(child: &mut Child) -> Vec<u64> {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    numbers(&text)
}

fn numbers(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.strip_prefix("seq ")?.parse().ok()).collect()
}

/// Not a test of its own: what the processes of the others do.
#[test]
fn another_process_appends() {
    let Ok(wish) = std::env::var(CHILD) else { return };
    let (name, rest) = wish.split_once(' ').unwrap();
    let (count, artifacts) = rest.split_once(' ').unwrap();
    let process = open(Path::new(artifacts));
    for number in 0..count.parse::<u64>().unwrap() {
        let entry = Entry::new(Event::Edit).object(&format!("{name}/{number}"));
        let head = process.audit.append(entry).unwrap();
        println!("seq {}", head.seq);
        if number % 50 == 49 {
            process.audit.settle().unwrap();
        }
    }
    process.audit.settle().unwrap();
}

/// AUDIT-7, security line 187: ten processes at once write one chain, without a lost or a doubled number.
#[test]
fn ten_processes_append_one_chain() {
    const EACH: u64 = 100;
    let place = Place::new();
    // The log is contended, not the making of the store, which a slow disk may keep some of them from for too long.
    let process = open(&place.artifacts());
    let mut children: Vec<_> = (0..10).map(|n| place.child(&format!("p{n}"), EACH)).collect();
    let answered: Vec<_> = children.iter_mut().map(answered).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let all: BTreeSet<u64> = answered.iter().flatten().copied().collect();
    assert_eq!(all, (1..=10 * EACH).collect(), "each number once");
    let found = place.verify(&process);
    assert!(found.ok && found.records == 10 * EACH, "{found:?}");
    assert_eq!(process.store.head().unwrap().unwrap().seq, 10 * EACH, "the last edge");
    for (name, own) in answered.iter().enumerate() {
        let of_it =
            |record: &&Record| record.object.as_ref().unwrap().starts_with(&format!("p{name}/"));
        let seqs: Vec<_> = place.records().iter().filter(of_it).map(|record| record.seq).collect();
        assert_eq!(&seqs, own, "in the order of its process");
    }
}

/// AUDIT-8: whenever a process is killed, what it was answered is there, and the others go on.
#[test]
fn a_killed_process_loses_nothing_that_it_was_answered() {
    let place = Place::new();
    // Made before they contend for it: see above.
    drop(open(&place.artifacts()));
    for round in 0..6u64 {
        let mut children: Vec<_> =
            (0..3).map(|n| place.child(&format!("r{round}p{n}"), 100_000)).collect();
        let mut lines: Vec<_> = children
            .iter_mut()
            .map(|child| BufReader::new(child.stdout.take().unwrap()).lines())
            .collect();
        // They are at work; the moment in which they are killed is left to the machine.
        for lines in &mut lines {
            lines.find(|line| line.as_ref().unwrap().starts_with("seq ")).unwrap().unwrap();
        }
        std::thread::sleep(Duration::from_millis(3 + 7 * round));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let answered: Vec<u64> =
            lines.into_iter().flatten().flat_map(|line| numbers(&line.unwrap())).collect();
        assert!(!answered.is_empty());
        let there: BTreeSet<_> = place.records().iter().map(|record| record.seq).collect();
        assert!(answered.iter().all(|seq| there.contains(seq)));
        // The next process appends, whatever the killed ones left.
        let mut next = place.child("next", 1);
        assert_eq!(self::answered(&mut next).len(), 1);
        next.wait().unwrap();
        let found = place.verify(&open(&place.artifacts()));
        assert!(found.ok, "{found:?}");
    }
}

/// AUDIT-8: killed within a record, which is recovered and recorded by the next.
#[test]
fn half_a_record_is_recovered_by_the_next_process() {
    let place = Place::new();
    place.child("whole", 3).wait().unwrap();
    let mut torn = place.child_with("torn", 1, Some("half_a_record"));
    assert!(answered(&mut torn).is_empty());
    assert!(!torn.wait().unwrap().success());
    let text = fs::read(place.log()).unwrap();
    assert_ne!(text.last(), Some(&b'\n'), "half a record is there");
    let process = open(&place.artifacts());
    assert!(place.verify(&process).torn_bytes > 0);
    process.audit.append(Entry::new(Event::Edit).object("after")).unwrap();
    let found = place.verify(&process);
    assert!(found.ok && found.recovered == 1 && found.records == 5, "{found:?}");
    assert!(fs::read(place.log()).unwrap().starts_with(&text), "nothing of it is lost");
}

/// AUDIT-11: what a record costs does not depend on how many there are.
#[test]
fn the_log_is_read_from_its_end_to_append() {
    let place = Place::new();
    place.child("one", 1).wait().unwrap();
    // A hole of a gigabyte before the last record.
    let line = fs::read(place.log()).unwrap();
    let file = fs::File::options().write(true).open(place.log()).unwrap();
    use std::os::unix::fs::FileExt;
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"\n", (1 << 30) - 1).unwrap();
    file.write_all_at(&line, 1 << 30).unwrap();
    // A new store remembers nothing of that log.
    for entry in fs::read_dir(place.artifacts().join("state")).unwrap() {
        let path = entry.unwrap().path();
        if path != place.log() {
            fs::remove_file(path).unwrap();
        }
    }
    let process = open(&place.artifacts());
    let before = bytes_read();
    assert_eq!(process.audit.append(Entry::new(Event::Edit)).unwrap().seq, 2);
    let read = bytes_read() - before;
    assert!((1..1 << 20).contains(&read), "{read} bytes");
}

/// Bytes that this thread has read, from any file.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}
