//! Whether a report is believed: its schema, and that every path and line it names is in the repository as
//! a Scout sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;

use super::facts_a::FactsA;
use super::facts_b::FactsB;
use super::grounding::{ABSENT, InView, MOST, Ungrounded, ground_a, ground_b, ground_facts_b};
use super::own_report::OwnReport;
use super::query::ReportCheck;
use super::report_a::ReportA;
use super::report_b::ReportB;
use act_workspace::{Kind, Last, RepoView, Slice, files, read};

/// Bytes of a file that are looked through for its lines; a range behind them does not exist for us.
const MAX_FILE: u64 = 64 << 20;
/// Bytes that one check reads. A report that needs more is not checked, and not believed.
const MAX_READ: u64 = 256 << 20;
/// What looking for a file costs out of them, so that their number is bounded too.
const LOOK: u64 = 4 << 10;

/// Checks reports against one repository.
pub struct Grounded {
    view: RepoView,
    /// Of Scouts whose reports are of a kind of their own.
    own: Arc<HashMap<String, OwnReport>>,
}

impl Grounded {
    /// `view` is a Scout's, so a report cannot name what no Scout can see.
    pub fn new(view: RepoView) -> Self {
        Self { view, own: Arc::default() }
    }

    /// Reports of this Scout have the schema that its author wrote; none is any JSON.
    pub fn with(mut self, scout: &str, schema: Option<&str>) -> Result<Self, String> {
        let report = OwnReport::new(schema)?;
        Arc::make_mut(&mut self.own).insert(scout.to_owned(), report);
        Ok(self)
    }
}

impl ReportCheck for Grounded {
    /// Reads files, so on a thread that may wait; a check whose caller has gone stops reading.
    fn check<'a>(&'a self, scout: &'a str, raw: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let gone = Gone::default();
            let seen = Arc::clone(&gone.0);
            let view = self.view.until(move || seen.load(Ordering::Relaxed));
            let (scout, raw, own) = (scout.to_owned(), raw.to_owned(), Arc::clone(&self.own));
            let checked = tokio::task::spawn_blocking(move || match own.get(&scout) {
                Some(report) => report.check(&raw),
                None => check(&scout, &raw, &mut Files::new(view, MAX_READ)),
            });
            checked
                .await
                .unwrap_or_else(|_| Err("the check itself failed; please report it".into()))
        })
    }
}

/// Set when it goes out of scope.
#[derive(Default)]
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn check(scout: &str, raw: &str, files: &mut Files) -> Result<String, String> {
    let (summary, wrong) = match scout {
        "scout-a" => {
            let report = ReportA::parse(raw).map_err(|error| error.to_string())?;
            (report.summary(), ground_a(&report, files))
        }
        "scout-b" => {
            let report = ReportB::parse(raw).map_err(|error| error.to_string())?;
            (report.summary(), ground_b(&report, files))
        }
        other => return Err(format!("no report schema is known for {other}")),
    };
    if files.over {
        return Err("too much to check: name fewer and smaller files".to_owned());
    }
    if wrong.is_empty() { Ok(summary) } else { Err(listed(&wrong)) }
}

/// What facts say in one line, or what is wrong with them: their schema, files that are not in view, lines behind the
/// end of a file. Reads files, so for a thread that may wait.
pub fn check_facts(scout: &str, raw: &str, view: &RepoView) -> Result<String, String> {
    match scout {
        "scout-a" => {
            let facts = FactsA::parse(raw).map_err(|error| error.to_string())?;
            let wrong = ground_facts_a(&facts, view)?;
            if wrong.is_empty() { Ok(facts.summary()) } else { Err(listed(&wrong)) }
        }
        "scout-b" => {
            let facts = FactsB::parse(raw).map_err(|error| error.to_string())?;
            let mut files = Files::new(view.clone(), MAX_READ);
            let wrong = ground_facts_b(&facts, |path| files.lines(path));
            if wrong.is_empty() { Ok(facts.summary()) } else { Err(listed(&wrong)) }
        }
        // Of facts of others nobody has written a schema down: any JSON.
        _ => OwnReport::new(None)?.check(raw),
    }
}

fn ground_facts_a(facts: &FactsA, view: &RepoView) -> Result<Vec<Ungrounded>, String> {
    let there = files(view).map_err(|error| error.to_string())?;
    let (mut wrong, mut files) = (vec![], Files::new(view.clone(), MAX_READ));
    for path in facts.paths().into_iter().filter(|path| !there.contains(*path)).take(MOST) {
        let (field, path) = ("facts".to_owned(), path.to_owned());
        wrong.push(Ungrounded::NoSuchFile { field, path, why: ABSENT });
    }
    for (path, end) in facts.last_lines() {
        // Where there is more to read than may be, what was not read is not said to be wrong.
        let Some(lines) = files.lines(path).filter(|lines| *lines < end) else { continue };
        let (field, path, start) = ("facts".to_owned(), path.to_owned(), end);
        wrong.push(Ungrounded::NoSuchLines { field, path, start, end, lines });
    }
    wrong.truncate(MOST);
    Ok(wrong)
}

/// What one check knows of the files that a report names; each is looked for once, and read once where a report
/// speaks of its lines.
struct Files {
    view: RepoView,
    there: HashMap<String, bool>,
    lines: HashMap<String, Option<u32>>,
    left: u64,
    /// There was more to read than may be.
    over: bool,
}

impl Files {
    fn new(view: RepoView, most: u64) -> Self {
        Self { view, there: HashMap::new(), lines: HashMap::new(), left: most, over: false }
    }

    fn lines(&mut self, path: &str) -> Option<u32> {
        if let Some(known) = self.lines.get(path) {
            return *known;
        }
        let lines = self.count(path);
        self.lines.insert(path.to_owned(), lines);
        lines
    }

    fn count(&mut self, path: &str) -> Option<u32> {
        self.spend(LOOK)?;
        let (mut offset, mut lines, mut last) = (0, 0_u32, b'\n');
        while offset < MAX_FILE {
            let slice = Slice { path: path.to_owned(), offset, ..Slice::default() };
            let chunk = read(&self.view, &slice, None).ok()?;
            let Some(end) = chunk.bytes.last() else { break };
            last = *end;
            let feeds = chunk.bytes.iter().filter(|byte| **byte == b'\n').count();
            lines = lines.saturating_add(u32::try_from(feeds).unwrap_or(u32::MAX));
            offset += chunk.bytes.len() as u64;
            self.spend(chunk.bytes.len() as u64)?;
        }
        Some(lines.saturating_add(u32::from(last != b'\n')))
    }

    fn look(&mut self, path: &str) -> bool {
        let seen = self.spend(LOOK).and_then(|()| self.view.resolve("", path, Last::Follow).ok());
        seen.is_some_and(|seen| seen.kind == Kind::File)
    }

    fn spend(&mut self, bytes: u64) -> Option<()> {
        let left = self.left.checked_sub(bytes);
        self.over |= left.is_none();
        self.left = left.unwrap_or(0);
        left.map(|_| ())
    }
}

impl InView for Files {
    fn has(&mut self, path: &str) -> bool {
        if let Some(known) = self.there.get(path) {
            return *known;
        }
        let there = self.look(path);
        self.there.insert(path.to_owned(), there);
        there
    }

    /// A listing shows links and directories as well, so a reader has to be told why they will not do.
    fn why_not(&mut self, path: &str) -> &'static str {
        let seen = self.spend(LOOK).and_then(|()| self.view.resolve("", path, Last::Link).ok());
        match seen.map(|seen| seen.kind) {
            Some(Kind::Link) => "is a link that leads to no file in view",
            Some(Kind::Directory) => "is a directory, and only files can be named",
            Some(Kind::File) | None => ABSENT,
        }
    }

    fn lines(&mut self, path: &str) -> u32 {
        Self::lines(self, path).unwrap_or(0)
    }
}

fn listed(wrong: &[Ungrounded]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use act_workspace::Profile;

    #[test]
    fn lines_count_with_and_without_a_final_newline() {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [("a", ""), ("b", "x\n"), ("c", "x\ny"), ("d", "x\ny\n")] {
            fs::write(root.path().join(name), text).unwrap();
        }
        let mut files = files(root.path(), MAX_READ);
        let lines = ["a", "b", "c", "d", "e"].map(|name| files.lines(name));
        assert_eq!(lines, [Some(0), Some(1), Some(2), Some(2), None]);
    }

    fn files(root: &std::path::Path, most: u64) -> Files {
        Files::new(RepoView::open(root, Profile::Scout).unwrap(), most)
    }

    fn blaming(path: &str, times: usize) -> String {
        json!({
            "schema_version": "1",
            "build": {"detected_system": "custom", "commands": {"install": null, "build": "", "clean": null},
                      "prerequisites": [], "notes": ""},
            "test": {"detected_framework": "custom", "commands": {"all": "", "unit": null, "integration": null},
                     "coverage_command": null, "notes": ""},
            "failure_analysis": {"root_cause": "", "affected_files": vec![path; times],
                                 "suggested_investigation": [], "is_flaky": false, "flaky_reason": null},
            "environment_issues": []
        })
        .to_string()
    }

    /// A report that speaks of the first line of one file.
    fn zones(path: &str, times: usize) -> String {
        let zone = json!({
            "file": path, "start_line": 1, "end_line": 1, "risk_level": "low", "complexity": "low",
            "dependencies": [], "invariants": [], "rationale": ""});
        json!({
            "schema_version": "1",
            "repo_map": {"relevant_files": [], "entry_points": [], "dependency_graph": {}},
            "risk_zones": vec![zone; times],
            "change_boundaries": {"safe_slices": [], "ordering_constraints": []},
            "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
            "prior_art": [], "verification_tips": [], "hypotheses": []
        })
        .to_string()
    }

    // SCOUT-8: what is no text is a file as well
    #[test]
    fn a_file_is_there_whatever_is_in_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "i\0m\0").unwrap();
        let mut files = files(root.path(), MAX_READ);
        assert!(check("scout-b", &blaming("a", 1), &mut files).is_ok());
        let wrong = check("scout-a", &zones("a", 1), &mut files).unwrap_err();
        assert!(wrong.contains("which has 0"), "{wrong}");
    }

    // SCOUT-8: what a listing shows and no report may name is refused for what it is
    #[test]
    fn a_link_is_a_file_where_it_leads_to_one_and_else_says_that_it_is_a_link() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("dir")).unwrap();
        fs::write(root.path().join("a"), "x\n").unwrap();
        fs::write(root.path().join(".env"), "x\n").unwrap();
        for (link, target) in [
            ("good", "a"),
            ("gone", "nowhere"),
            ("out", "/etc/passwd"),
            ("hid", ".env"),
            ("d", "dir"),
        ] {
            symlink(target, root.path().join(link)).unwrap();
        }
        let told =
            |path: &str| check("scout-b", &blaming(path, 1), &mut files(root.path(), MAX_READ));
        assert!(told("good").is_ok());
        for (path, why) in [
            ("gone", "is a link that leads to no file in view"),
            ("out", "is a link that leads to no file in view"),
            ("hid", "is a link that leads to no file in view"),
            ("d", "is a link that leads to no file in view"),
            ("dir", "is a directory, and only files can be named"),
            (".env", ABSENT),
            ("none", ABSENT),
        ] {
            let wrong = told(path).unwrap_err();
            assert!(wrong.ends_with(why), "{wrong}");
        }
    }

    // SCOUT-8
    #[test]
    fn a_file_that_is_named_often_is_read_once() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "x\n".repeat(5_000)).unwrap();
        // Enough for one reading of it and not for two.
        let mut files = files(root.path(), 2 * LOOK + 15_000);
        assert!(check("scout-a", &zones("a", 500), &mut files).is_ok());
    }

    // SCOUT-8
    #[test]
    fn a_report_that_takes_too_much_to_check_is_rejected_as_that() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "x\n".repeat(5_000)).unwrap();
        for most in [LOOK - 1, LOOK + 5_000] {
            let rejected = check("scout-a", &zones("a", 1), &mut files(root.path(), most));
            assert!(rejected.unwrap_err().starts_with("too much to check"), "{most}");
        }
        // Where it is said to be there and no more, nobody reads it.
        assert!(check("scout-b", &blaming("a", 1), &mut files(root.path(), LOOK)).is_ok());
    }

    #[test]
    fn a_check_leaves_the_thread_that_asks_for_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "x").unwrap();
        let check = Grounded::new(RepoView::open(root.path(), Profile::Scout).unwrap());
        // The only thread for blocking work is busy until it is told otherwise.
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let (go_on, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            let (right, wrong) = (blaming("a", 1), blaming("b", 1));
            let mut first = check.check("scout-b", &right);
            assert!(futures_util::poll!(&mut first).is_pending());
            go_on.send(()).unwrap();
            busy.await.unwrap().unwrap();
            assert!(first.await.is_ok());
            let wrong = check.check("scout-b", &wrong).await.unwrap_err();
            assert!(wrong.contains("not in the repository"), "{wrong}");
        });
    }

    /// Paths that a liar may name: there, hidden, outside, odd.
    const NAMED: [&str; 12] = [
        "a.py",
        "src/b.py",
        "./a.py",
        "ghost.py",
        "credentials.py",
        ".env",
        ".git/config",
        "out/built.py",
        "../outside",
        "/etc/passwd",
        "src",
        "",
    ];

    fn paths() -> impl Strategy<Value = String> {
        prop::sample::select(&NAMED[..]).prop_map(str::to_owned)
    }

    prop_compose! {
        fn lies()(
            relevant in prop::collection::vec(paths(), 0..4),
            entries in prop::collection::vec(paths(), 0..3),
            edges in prop::collection::btree_map(paths(), prop::collection::vec(paths(), 0..3), 0..3),
            zones in prop::collection::vec((paths(), 0_u32..6, 0_u32..6), 0..3),
            slices in prop::collection::vec(paths(), 0..3),
            art in prop::collection::vec(paths(), 0..2),
        ) -> serde_json::Value {
            let zones: Vec<_> = zones.into_iter().map(|(file, start, end)| json!({
                "file": file, "start_line": start, "end_line": end, "risk_level": "low", "complexity": "low",
                "dependencies": [], "invariants": [], "rationale": ""})).collect();
            let relevant: Vec<_> = relevant.into_iter()
                .map(|path| json!({"path": path, "purpose": "", "relevance": "primary"})).collect();
            let art: Vec<_> = art.into_iter()
                .map(|file| json!({"file": file, "description": "", "relevance": ""})).collect();
            json!({
                "schema_version": "1",
                "repo_map": {"relevant_files": relevant, "entry_points": entries, "dependency_graph": edges},
                "risk_zones": zones,
                "change_boundaries": {"safe_slices": [
                    {"id": "s", "files": slices, "description": "", "complexity": "low", "order": null}],
                    "ordering_constraints": []},
                "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
                "prior_art": art, "verification_tips": [], "hypotheses": []
            })
        }
    }

    /// Every path in a report, and the lines of its zones.
    fn named(report: &serde_json::Value) -> (Vec<&str>, Vec<(&str, u64, u64)>) {
        let mut paths = vec![];
        let map = &report["repo_map"];
        for file in map["relevant_files"].as_array().unwrap() {
            paths.push(file["path"].as_str().unwrap());
        }
        for (from, to) in map["dependency_graph"].as_object().unwrap() {
            paths.push(from);
            paths.extend(to.as_array().unwrap().iter().map(|to| to.as_str().unwrap()));
        }
        let slices = report["change_boundaries"]["safe_slices"].as_array().unwrap();
        let files = slices.iter().flat_map(|slice| slice["files"].as_array().unwrap());
        let entries = map["entry_points"].as_array().unwrap().iter().chain(files);
        paths.extend(entries.map(|path| path.as_str().unwrap()));
        for art in report["prior_art"].as_array().unwrap() {
            paths.push(art["file"].as_str().unwrap());
        }
        let zones = report["risk_zones"].as_array().unwrap().iter().map(|zone| {
            let line = |field: &str| zone[field].as_u64().unwrap();
            (zone["file"].as_str().unwrap(), line("start_line"), line("end_line"))
        });
        (paths, zones.collect())
    }

    proptest! {
        // SCOUT-8: whatever a model says, a report that is let through names what is there and nothing else
        #[test]
        fn no_lie_about_files_or_lines_leaves_the_host(report in lies()) {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in [("a.py", "1\n2\n3\n"), ("src/b.py", "1\n"), ("credentials.py", "x\n"),
                (".env", "x\n"), (".git/config", "x\n"), ("out/built.py", "x\n"), (".gitignore", "out/\n")] {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let grounded = check("scout-a", &report.to_string(), &mut files(root.path(), MAX_READ)).is_ok();
            let lines = |path: &str| match path.trim_start_matches("./") {
                "a.py" => Some(3),
                "src/b.py" => Some(1),
                _ => None,
            };
            let (paths, zones) = named(&report);
            let true_paths = paths.iter().all(|path| lines(path).is_some());
            let true_zones = zones.iter().all(|(path, start, end)| {
                lines(path).is_some_and(|lines| 1 <= *start && start <= end && *end <= lines)
            });
            prop_assert!(!grounded || (true_paths && true_zones), "{report}");
        }
    }
}
