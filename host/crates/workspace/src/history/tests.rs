use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::testing::Fixture;
use crate::view::Profile;

/// Runs git without the configuration of the machine.
fn git(root: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"])
        .args(["-c", "gc.auto=0", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_DIR")
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Writes the files and commits everything.
fn commit(repo: &Fixture, files: &[(&str, &str)]) {
    for (path, text) in files {
        repo.write(path, text);
    }
    git(&repo.root, &["add", "-A", "-f"]);
    git(&repo.root, &["commit", "-q", "--allow-empty", "-m", "m"]);
}

fn repository(commits: &[&[(&str, &str)]]) -> Fixture {
    let repo = Fixture::new(&[]);
    git(&repo.root, &["init", "-q"]);
    for files in commits {
        commit(&repo, files);
    }
    repo
}

/// Enough time for the slowest machine, so that only the other bounds decide.
fn patient() -> HistoryLimits {
    HistoryLimits { time: Duration::from_secs(60), ..HistoryLimits::default() }
}

fn of(repo: &Fixture) -> History {
    history(&repo.view(Profile::Scout), patient())
}

/// The age of each commit with its paths.
fn shown(history: &History) -> Vec<(u32, Vec<&str>)> {
    let path = |file: &u32| history.paths[*file as usize].as_str();
    let change = |one: &CommitFiles| (one.age, one.files.iter().map(path).collect());
    history.changes.iter().map(change).collect()
}

fn is_without(history: &History) -> bool {
    *history == History::default()
}

// WORKSPACE-58
#[test]
fn the_newest_commits_are_listed_with_the_files_that_they_changed() {
    let repo = repository(&[
        &[("a", "1"), ("b", "1"), ("src/deep/c", "1")],
        &[("a", "2"), ("src/deep/c", "2")],
        &[],
        &[("b", "2"), ("src/new", "1")],
    ]);
    let found = of(&repo);
    assert_eq!(found.paths, ["b", "src/new", "a", "src/deep/c"]);
    let expected = [
        (0, vec!["b", "src/new"]),
        (2, vec!["a", "src/deep/c"]),
        (3, vec!["a", "b", "src/deep/c"]),
    ];
    assert_eq!(shown(&found), expected);
    assert_eq!((found.commits, found.complete), (4, true));
    // Once in a pack, then with newer objects beside the pack, then in two packs with references between them.
    git(&repo.root, &["gc", "-q", "--aggressive", "--prune=now"]);
    assert_eq!(of(&repo), found);
    commit(&repo, &[("a", "3")]);
    assert_eq!(shown(&of(&repo))[0], (0, vec!["a"]));
    git(&repo.root, &["repack", "-q", "-d"]);
    let repacked = of(&repo);
    assert_eq!((shown(&repacked)[0].clone(), repacked.commits), ((0, vec!["a"]), 5));
}

// WORKSPACE-58
#[test]
fn a_long_chain_of_deltas_gives_the_same_history() {
    let many: Vec<_> = (0..200).map(|n| (format!("dir/file{n:03}"), n.to_string())).collect();
    let many: Vec<_> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let repo = repository(&[&many]);
    for (path, _) in &many[..60] {
        commit(&repo, &[(path, "x")]);
    }
    let loose = of(&repo);
    assert_eq!((loose.commits, loose.changes.len(), loose.complete), (61, 60, true));
    git(&repo.root, &["repack", "-q", "-a", "-d", "-f", "--depth=50", "--window=50"]);
    assert_eq!(of(&repo), loose);
}

// WORKSPACE-58
#[test]
fn a_merge_is_one_commit_with_all_that_it_brought() {
    let repo = repository(&[&[("a", "1")]]);
    git(&repo.root, &["checkout", "-q", "-b", "topic"]);
    commit(&repo, &[("b", "1")]);
    commit(&repo, &[("c", "1")]);
    git(&repo.root, &["checkout", "-q", "main"]);
    git(&repo.root, &["merge", "-q", "--no-ff", "-m", "m", "topic"]);
    assert_eq!(shown(&of(&repo)), [(0, vec!["b", "c"]), (1, vec!["a"])]);
}

// WORKSPACE-58
#[test]
fn a_commit_of_many_files_is_left_out_and_counted() {
    let many: Vec<_> = (0..=MAX_FILES).map(|n| format!("file{n}")).collect();
    let many: Vec<_> = many.iter().map(|path| (path.as_str(), "1")).collect();
    let repo = repository(&[
        &[("a", "1")],
        &many,
        &many[1..].iter().map(|one| (one.0, "2")).collect::<Vec<_>>(),
    ]);
    let found = of(&repo);
    let sizes: Vec<_> = found.changes.iter().map(|one| (one.age, one.files.len())).collect();
    assert_eq!(sizes, [(0, MAX_FILES), (2, 1)]);
    assert_eq!((found.commits, found.complete), (3, true));
}

// WORKSPACE-59
#[test]
fn a_path_that_is_not_in_view_is_not_named() {
    let repo = repository(&[&[
        ("kept", "1"),
        (".env", "1"),
        ("sub/.env.local", "1"),
        ("id_rsa", "1"),
        ("image.png", "1"),
        ("node_modules/m/x", "1"),
        ("gone", "1"),
        ("becomes/file", "1"),
        (".gitignore", "ignored\n"),
    ]]);
    repo.write("ignored", "never committed");
    symlink("kept", repo.root.join("link")).unwrap();
    commit(&repo, &[("ignored", "1")]);
    git(&repo.root, &["rm", "-q", "--cached", "ignored", "gone"]);
    fs::remove_file(repo.root.join("gone")).unwrap();
    fs::remove_dir_all(repo.root.join("becomes")).unwrap();
    git(&repo.root, &["commit", "-q", "-m", "m"]);
    let found = of(&repo);
    assert_eq!(found.paths, [".gitignore", "kept"]);
    assert_eq!(shown(&found), [(2, vec![".gitignore", "kept"])]);
    // A reader of a part sees that part, and a root inside of the working tree its own paths.
    let narrow = repo.view(Profile::Scout).restricted(crate::Restriction {
        parts: Some(vec!["kept".to_owned()]),
        stopped: Box::new(|| false),
        on_read: Box::new(|path| panic!("{path} was not read")),
    });
    assert_eq!(history(&narrow, patient()).paths, ["kept"]);
    commit(&repo, &[("sub/inner/x", "1"), ("kept", "2")]);
    let inner = of(&repo.part("sub"));
    assert_eq!((inner.paths.as_slice(), inner.commits), (&["inner/x".to_owned()][..], 4));
}

// WORKSPACE-60
#[test]
fn each_bound_ends_the_pass_and_says_so() {
    let repo = repository(&[&[("a", "1")], &[("b", "1")], &[("c", "1")]]);
    let with = |limits: HistoryLimits| history(&repo.view(Profile::Scout), limits);
    let two = with(HistoryLimits { commits: 2, ..patient() });
    assert_eq!((two.paths.len(), two.commits, two.complete), (2, 2, true));
    assert!(is_without(&with(HistoryLimits { time: Duration::ZERO, ..patient() })));
    let room = ENTRY + 1 + ENTRY + 4;
    let small = with(HistoryLimits { answer_bytes: 2 * room, ..patient() });
    assert_eq!((small.changes.len(), small.complete), (2, false));
    let mut before = 0;
    for bytes in (0..4_000).step_by(100) {
        let found = with(HistoryLimits { bytes, ..patient() });
        assert!(found.commits >= before && found.complete == (found.commits == 3), "{bytes}");
        before = found.commits;
    }
    assert_eq!(before, 3);
    let stopped = repo.view(Profile::Scout).until(|| true);
    assert!(is_without(&history(&stopped, patient())));
}

// WORKSPACE-61
#[test]
fn a_repository_with_a_part_of_its_history_does_without() {
    let repo = repository(&[&[("a", "1")], &[("b", "1")]]);
    let url = format!("file://{}", repo.root.display());
    let clone = |options: &[&str]| {
        let copy = Fixture::new(&[]);
        let to = copy.root.join("copy");
        let to = to.to_str().unwrap();
        git(&copy.root, &[&["clone", "-q"], options, &[url.as_str(), to]].concat());
        copy
    };
    let whole = of(&clone(&[]).part("copy"));
    assert_eq!((whole.commits, whole.complete), (2, true));
    assert!(is_without(&of(&clone(&["--depth=1"]).part("copy"))));
    git(&repo.root, &["config", "uploadpack.allowFilter", "true"]);
    assert!(is_without(&of(&clone(&["--filter=blob:none"]).part("copy"))));

    let other = Fixture::new(&[]);
    git(&other.root, &["init", "-q", "--object-format=sha256"]);
    commit(&other, &[("a", "1")]);
    assert!(is_without(&of(&other)));
    assert!(is_without(&of(&Fixture::new(&[("a", "1")]))));
    let unborn = repository(&[]);
    assert!(is_without(&of(&unborn)));
}

// WORKSPACE-61
#[test]
fn objects_of_another_repository_are_missing() {
    let theirs = repository(&[&[("a", "1")], &[("a", "2")]]);
    let repo = Fixture::new(&[]);
    git(&repo.root, &["clone", "-q", "--shared", theirs.root.to_str().unwrap(), "copy"]);
    let copy = repo.part("copy");
    assert!(copy.root.join(".git/objects/info/alternates").exists());
    assert!(is_without(&of(&copy)));
    // What the repository has itself is shown.
    commit(&copy, &[("b", "1")]);
    let found = of(&copy);
    assert_eq!((found.commits, found.complete), (0, false));
}

// WORKSPACE-61
#[test]
fn a_git_directory_counts_only_if_it_is_the_repositorys_own() {
    let theirs = repository(&[&[("a", "1")]]);
    let own = theirs.root.join(".git");
    let pretending = |place: &dyn Fn(&Fixture)| {
        let repo = Fixture::new(&[("a", "1")]);
        place(&repo);
        assert!(is_without(&of(&repo)));
    };
    pretending(&|repo| repo.link(&own, ".git"));
    pretending(&|repo| repo.write(".git", format!("gitdir: {}\n", own.display())));
    pretending(&|repo| {
        git(&repo.root, &["init", "-q"]);
        repo.write(".git/commondir", own.display().to_string());
    });
    pretending(&|repo| {
        git(&repo.root, &["init", "-q"]);
        fs::copy(own.join("refs/heads/main"), repo.root.join(".git/refs/heads/main")).unwrap();
        fs::remove_dir_all(repo.root.join(".git/objects")).unwrap();
        repo.link(own.join("objects"), ".git/objects");
    });
    // A linked worktree points back to its directory, and a copy of its `.git` file does not.
    let tree = theirs.root.parent().unwrap().join("tree");
    git(&theirs.root, &["worktree", "add", "-q", "-b", "topic", tree.to_str().unwrap()]);
    let linked = RepoView::open(&tree, Profile::Scout).unwrap();
    assert_eq!(history(&linked, patient()).paths, ["a"]);
    pretending(&|repo| {
        fs::copy(tree.join(".git"), repo.root.join(".git")).unwrap();
    });
}

// WORKSPACE-61
#[test]
fn links_to_packs_and_objects_are_not_followed() {
    let repo = repository(&[&[("a", "1")]]);
    let objects = repo.root.join(".git/objects");
    fs::rename(&objects, repo.outside.join("objects")).unwrap();
    fs::create_dir(&objects).unwrap();
    for entry in fs::read_dir(repo.outside.join("objects")).unwrap() {
        let entry = entry.unwrap();
        symlink(entry.path(), objects.join(entry.file_name())).unwrap();
    }
    assert!(is_without(&of(&repo)));
    let repo = repository(&[&[("a", "1")]]);
    git(&repo.root, &["repack", "-q", "-a", "-d"]);
    assert_eq!(of(&repo).commits, 1);
    let packs = repo.root.join(".git/objects/pack");
    for entry in fs::read_dir(&packs).unwrap() {
        let entry = entry.unwrap();
        let moved = repo.outside.join(entry.file_name());
        fs::rename(entry.path(), &moved).unwrap();
        symlink(moved, entry.path()).unwrap();
    }
    assert!(is_without(&of(&repo)));
}

// WORKSPACE-61
#[test]
fn files_of_another_user_are_not_read() {
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("only the superuser can give files away");
        return;
    }
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(12_345), None).unwrap();
    for part in [".git", ".git/objects", ".git/objects/pack"] {
        let repo = repository(&[&[("a", "1")]]);
        give(&repo.root.join(part));
        assert!(is_without(&of(&repo)), "{part}");
    }
    let repo = repository(&[&[("a", "1")]]);
    git(&repo.root, &["repack", "-q", "-a", "-d"]);
    for entry in fs::read_dir(repo.root.join(".git/objects/pack")).unwrap() {
        give(&entry.unwrap().path());
    }
    assert!(is_without(&of(&repo)));
    // A user's whole repository counts, whoever runs act.
    let repo = repository(&[&[("a", "1")]]);
    let mut todo = vec![repo.root.clone()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        give(&path);
    }
    assert_eq!(of(&repo).commits, 1);
}

// WORKSPACE-60
#[test]
fn no_changed_byte_of_a_pack_ends_the_host() {
    let repo = repository(&[&[("a", "1"), ("d/b", "1")], &[("a", "2")], &[("d/b", "2")]]);
    git(&repo.root, &["repack", "-q", "-a", "-d", "-f"]);
    let packs = repo.root.join(".git/objects/pack");
    let files = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
    let (view, whole) = (repo.view(Profile::Scout), of(&repo));
    assert_eq!(whole.commits, 3);
    let mut damaged = 0;
    for path in
        files.filter(|path| path.extension().is_some_and(|end| end == "pack" || end == "idx"))
    {
        let mut mode = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o600);
        fs::set_permissions(&path, mode).unwrap();
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            for value in [0, 0x7f, 0x80, 0xff] {
                changed[at] = value;
                fs::write(&path, &changed).unwrap();
                damaged += usize::from(history(&view, patient()) != whole);
            }
            if at % 7 == 0 {
                fs::write(&path, &bytes[..at]).unwrap();
                damaged += usize::from(history(&view, patient()) != whole);
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(damaged > 100, "{damaged}");
    assert_eq!(of(&repo), whole);
}

/// A repository whose objects are written by hand. Ids are chosen freely, because nobody computes a digest.
struct Forged {
    repo: Fixture,
    /// The entries of a pack that is written at the end.
    entries: Vec<(u16, Vec<u8>)>,
}

const COMMIT: u8 = 1;
const TREE: u8 = 2;
const REF_DELTA: u8 = 7;

fn hex(id: u16) -> String {
    format!("{id:04x}").repeat(10)
}

fn raw(id: u16) -> Vec<u8> {
    id.to_be_bytes().repeat(10)
}

fn commit_of(tree: u16, parent: Option<u16>) -> Vec<u8> {
    let parent = parent.map(|parent| format!("parent {}\n", hex(parent))).unwrap_or_default();
    let who = "n <e> 0 +0000";
    format!("tree {}\n{parent}author {who}\ncommitter {who}\n\nm\n", hex(tree)).into_bytes()
}

fn tree_of(entries: &[(&str, &str, u16)]) -> Vec<u8> {
    let entry = |(mode, name, id): &(&str, &str, u16)| {
        [format!("{mode} {name}\0").into_bytes(), raw(*id)].concat()
    };
    entries.iter().flat_map(entry).collect()
}

/// A zlib stream that stores the bytes as they are.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut chunks = bytes.chunks(65_535).peekable();
    if bytes.is_empty() {
        stream.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(chunk) = chunks.next() {
        let length = u16::try_from(chunk.len()).unwrap();
        stream.push(u8::from(chunks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(chunk);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    stream.extend((b << 16 | a).to_be_bytes());
    stream
}

/// The beginning of an entry of a pack.
fn header(kind: u8, mut size: u64) -> Vec<u8> {
    let mut bytes = vec![kind << 4 | (size & 15) as u8];
    size >>= 4;
    while size > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push((size & 0x7f) as u8);
        size >>= 7;
    }
    bytes
}

fn entry(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [header(kind, bytes.len() as u64), stored(bytes)].concat()
}

fn delta(base: u16, instructions: &[u8]) -> Vec<u8> {
    let header = header(REF_DELTA, instructions.len() as u64);
    [header, raw(base), stored(instructions)].concat()
}

/// A size at the beginning of a delta.
fn leb(mut size: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while size > 0x7f {
        bytes.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes
}

impl Forged {
    /// The commit of `HEAD` has the id 1.
    fn new() -> Self {
        let repo = Fixture::new(&[("a", "1")]);
        repo.write(".git/HEAD", hex(1));
        fs::create_dir_all(repo.root.join(".git/objects/pack")).unwrap();
        Self { repo, entries: vec![] }
    }

    fn with(mut self, id: u16, entry: Vec<u8>) -> Self {
        self.entries.push((id, entry));
        self
    }

    fn loose(self, id: u16, stream: &[u8]) -> Self {
        self.repo.write(&format!(".git/objects/{}/{}", &hex(id)[..2], &hex(id)[2..]), stream);
        self
    }

    /// Writes the pack and returns the history.
    fn history(&self) -> History {
        let mut entries = self.entries.clone();
        entries.sort_by_key(|(id, _)| *id);
        let count = u32::try_from(entries.len()).unwrap();
        let mut pack = [&b"PACK\0\0\0\x02"[..], &count.to_be_bytes()].concat();
        let mut offsets = vec![];
        for (_, entry) in &entries {
            offsets.extend(u32::try_from(pack.len()).unwrap().to_be_bytes());
            pack.extend(entry);
        }
        pack.extend([0; 20]);
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for first in 0..=0xff {
            let up_to = entries.iter().filter(|(id, _)| id >> 8 <= first).count();
            index.extend(u32::try_from(up_to).unwrap().to_be_bytes());
        }
        index.extend(entries.iter().flat_map(|(id, _)| raw(*id)));
        index.extend(vec![0; 4 * entries.len()]);
        index.extend(offsets);
        index.extend([0; 40]);
        self.repo.write(".git/objects/pack/pack-0.pack", pack);
        self.repo.write(".git/objects/pack/pack-0.idx", index);
        of(&self.repo)
    }
}

// WORKSPACE-60
#[test]
fn a_forged_pack_is_read_as_long_as_it_keeps_the_rules() {
    let file = |id| tree_of(&[("100644", "a", id)]);
    let forged = Forged::new()
        .with(1, entry(COMMIT, &commit_of(11, Some(2))))
        .with(2, entry(COMMIT, &commit_of(12, None)))
        .with(11, entry(TREE, &file(90)))
        // Copies all of the base but the id, and writes another id.
        .with(12, delta(11, &[leb(29), leb(29), vec![0x90, 9, 20], vec![91; 20]].concat()));
    let found = forged.history();
    assert_eq!((shown(&found), found.complete), (vec![(0, vec!["a"]), (1, vec!["a"])], true));
}

// WORKSPACE-60
#[test]
fn what_a_hostile_object_promises_ends_the_pass_and_costs_nothing() {
    let head = || Forged::new().with(1, entry(COMMIT, &commit_of(11, None)));
    let huge = leb(1 << 40);
    let copy_all = [0x80 | 0x70, 0xff, 0xff, 0xff];
    let bombs: [(&str, Forged); 10] = [
        ("a size of a terabyte", head().with(11, [header(TREE, 1 << 40), stored(b"x")].concat())),
        ("more than it promised", head().with(11, [header(TREE, 1), stored(&[0; 9_000])].concat())),
        (
            "a delta of itself",
            head().with(11, delta(11, &[leb(1), leb(1), vec![0x90, 1]].concat())),
        ),
        (
            "two deltas of each other",
            head()
                .with(11, delta(12, &[leb(1), leb(1), vec![0x90, 1]].concat()))
                .with(12, delta(11, &[leb(1), leb(1), vec![0x90, 1]].concat())),
        ),
        (
            "a delta with a result of a terabyte",
            head()
                .with(11, delta(12, &[leb(0), huge.clone(), copy_all.to_vec()].concat()))
                .with(12, entry(TREE, &[])),
        ),
        ("a base that is missing", head().with(11, delta(99, &[leb(1), leb(1)].concat()))),
        ("a loose object of a terabyte", head().loose(11, &stored(b"tree 1099511627776\0x"))),
        (
            "a loose object that goes on",
            head().loose(11, &stored(&[b"tree 1\0", &[0; 9_000][..]].concat())),
        ),
        ("a tree that is a commit", head().with(11, entry(COMMIT, &commit_of(11, None)))),
        ("a tree of nonsense", head().with(11, entry(TREE, b"100644 no end"))),
    ];
    for (what, forged) in bombs {
        let found = forged.history();
        assert_eq!((found.changes, found.complete), (vec![], false), "{what}");
    }
    let own_parent = Forged::new()
        .with(1, entry(COMMIT, &commit_of(11, Some(1))))
        .with(11, entry(TREE, &tree_of(&[("100644", "a", 90)])));
    assert_eq!(own_parent.history().commits, 2_000, "a circle of commits ends at the bound");
}

// WORKSPACE-60
#[test]
fn a_chain_of_too_many_deltas_ends_the_pass() {
    let copy_all = [leb(29), leb(29), vec![0x90, 29]].concat();
    let chain = |deltas: usize| {
        let last = 2 + u16::try_from(deltas).unwrap();
        let mut forged = Forged::new()
            .with(1, entry(COMMIT, &commit_of(2, None)))
            .with(last, entry(TREE, &tree_of(&[("100644", "a", 90)])));
        for id in 2..last {
            forged = forged.with(id, delta(id + 1, &copy_all));
        }
        forged.history()
    };
    assert_eq!(shown(&chain(MAX_DELTAS)), [(0, vec!["a"])]);
    assert!(is_without(&chain(MAX_DELTAS + 1)));
}

// WORKSPACE-60
#[test]
fn many_long_names_of_files_that_are_gone_end_the_pass() {
    let history_of = |commits: u16| {
        let mut forged = Forged::new();
        for n in 1..=commits {
            let names: Vec<_> =
                (0..30).map(|at| format!("{n}-{at}-{}", "x".repeat(1_000))).collect();
            let entries: Vec<_> = names.iter().map(|name| ("100644", name.as_str(), 9)).collect();
            forged = forged
                .with(n, entry(COMMIT, &commit_of(1_000 + n, (n < commits).then_some(n + 1))))
                .with(
                    1_000 + n,
                    entry(TREE, &tree_of(&entries[..if n % 2 == 0 { 0 } else { 28 }])),
                );
        }
        forged.history()
    };
    let few = history_of(4);
    assert_eq!((few.commits, few.complete, few.paths), (4, true, vec![]));
    let many = history_of(700);
    assert!(!many.complete && many.commits < 700, "{}", many.commits);
}

// WORKSPACE-60
#[test]
fn a_tree_that_contains_itself_or_names_other_directories_is_harmless() {
    let endless = Forged::new()
        .with(1, entry(COMMIT, &commit_of(11, Some(2))))
        .with(2, entry(COMMIT, &commit_of(12, None)))
        .with(11, entry(TREE, &tree_of(&[("40000", "d", 11)])))
        .with(12, entry(TREE, &tree_of(&[("100644", "a", 90)])));
    let found = endless.history();
    assert_eq!((shown(&found), found.commits), (vec![(1, vec!["a"])], 2));

    let names =
        ["", ".", "..", "../outside/file", "/etc/passwd", "a/", "./a", "x/../a", ".git", "a\n"];
    let entries: Vec<_> = names.iter().map(|name| ("100644", *name, 90)).collect();
    let outside = Forged::new()
        .with(1, entry(COMMIT, &commit_of(11, None)))
        .with(11, entry(TREE, &tree_of(&entries)))
        .history();
    assert_eq!(outside.paths, [""; 0]);
}
