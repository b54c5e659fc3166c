//! Checks reports: their schema, and that every path and every line they name is in the repository as a Scout sees it.
//! Every mistake is listed, because the list is returned to the Scout.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::ReportCheck;
use act_reports::facts_b::Location;
use act_reports::report_a::Excerpt;
use act_reports::version::SchemaError;
use act_reports::{FactsA, FactsB, ReportA, ReportB};
use act_workspace::{FollowLinks, Kind, OpenDirectory, RepoView, Slice, read};

/// Bytes of a file that are searched for line ends. A range of lines behind them counts as missing.
const MAX_FILE: u64 = 64 << 20;
/// Bytes that one check may read. A report that needs more is rejected.
const MAX_READ: u64 = 256 << 20;
/// Bytes of that budget that looking a file up costs, so that the number of files is bounded too.
const LOOK: u64 = 4 << 10;

/// Checks reports against one repository.
pub struct Grounded {
    view: RepoView,
    /// Schemas of Scouts other than A and B, by name.
    own: Arc<HashMap<String, OwnReport>>,
}

impl Grounded {
    /// Checks reports against `view`, the view of a Scout, so that no report names what a Scout cannot see.
    pub fn new(view: RepoView) -> Self {
        Self { view, own: Arc::default() }
    }

    /// Checks reports of this Scout against the schema that its author wrote. Without a schema any JSON passes.
    ///
    /// # Errors
    ///
    /// The schema is not a JSON Schema.
    pub fn with(mut self, scout: &str, schema: Option<&str>) -> Result<Self, String> {
        let report = OwnReport::new(schema)?;
        Arc::make_mut(&mut self.own).insert(scout.to_owned(), report);
        Ok(self)
    }
}

impl ReportCheck for Grounded {
    /// Reads files on a thread for blocking work, and stops when the caller drops the future.
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

/// A flag that is set when this value is dropped.
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

/// Checks the facts that a Scout computes without a model, and returns one line about them. `own` is the schema in the
/// Scout's manifest; the facts of Scout A and Scout B have schemas of their own. Reads files, so call it on a thread for
/// blocking work.
///
/// # Errors
///
/// A description of what is wrong with the facts: their schema, files that do not exist, lines behind the end of a file.
pub fn check_facts(
    scout: &str,
    raw: &str,
    own: &OwnReport,
    view: &RepoView,
) -> Result<String, String> {
    match scout {
        "scout-a" => checked_facts_a(raw, view).map(|facts| facts.summary()),
        "scout-b" => {
            let facts = facts_of(raw, FactsB::parse)?;
            let mut files = Files::new(view.clone(), MAX_READ);
            let wrong = ground_facts_b(&facts, |path| files.lines(path));
            if wrong.is_empty() { Ok(facts.summary()) } else { Err(listed(&wrong)) }
        }
        _ => own.check(raw),
    }
}

/// Returns the facts of Scout A when they hold. Reads files, so call it on a thread for blocking work.
///
/// # Errors
///
/// The errors of [`check_facts`].
pub fn checked_facts_a(raw: &str, view: &RepoView) -> Result<FactsA, String> {
    let facts = facts_of(raw, FactsA::parse)?;
    let wrong = ground_facts_a(&facts, view);
    if wrong.is_empty() { Ok(facts) } else { Err(listed(&wrong)) }
}

/// Checks that the facts of a Scout fit their schema, and returns one line about them. A Scout that takes the place of Scout
/// A or Scout B answers with facts in the schema of that one; any other Scout in the schema of its manifest.
///
/// # Errors
///
/// The parts that do not fit the schema.
pub fn check_facts_schema(scout: &str, raw: &str, own: &OwnReport) -> Result<String, String> {
    match scout {
        "scout-a" => facts_of(raw, FactsA::parse).map(|facts| facts.summary()),
        "scout-b" => facts_of(raw, FactsB::parse).map(|facts| facts.summary()),
        _ => own.check(raw),
    }
}

fn facts_of<T>(raw: &str, parse: fn(&str) -> Result<T, SchemaError>) -> Result<T, String> {
    parse(raw).map_err(|error| error.to_string())
}

fn ground_facts_a(facts: &FactsA, view: &RepoView) -> Vec<Ungrounded> {
    // Files are looked up while others are read. A machine without another thread does one after the other.
    let (mut wrong, lines) = std::thread::scope(|scope| {
        let looked_up = std::thread::Builder::new().spawn_scoped(scope, || missing(facts, view));
        let lines = missing_lines(facts, view);
        let wrong = looked_up.ok().and_then(|thread| thread.join().ok());
        (wrong.unwrap_or_else(|| missing(facts, view)), lines)
    });
    wrong.extend(lines);
    wrong.truncate(MOST);
    wrong
}

/// Returns the paths that are no files.
fn missing(facts: &FactsA, view: &RepoView) -> Vec<Ungrounded> {
    // The paths are sorted, so files of one directory follow each other. Most are plain files, which need not be opened.
    let mut around: Option<OpenDirectory<'_>> = None;
    let mut is_file = |path: &str| {
        if around.as_ref().is_none_or(|directory| !directory.holds(path)) {
            around = OpenDirectory::around(view, path);
        }
        if around.as_ref().is_some_and(|directory| directory.stat(path).is_some()) {
            return true;
        }
        let seen = view.resolve("", path, FollowLinks::No);
        seen.is_ok_and(|seen| seen.kind == Kind::File && seen.path == path)
    };
    let paths = facts.paths().into_iter().filter(|path| !is_file(path)).take(MOST);
    let absent = |path: &str| {
        let (field, path) = ("facts".to_owned(), path.to_owned());
        Ungrounded::NoSuchFile { field, path, why: ABSENT }
    };
    paths.map(absent).collect()
}

/// Returns the lines that are behind the end of a file.
fn missing_lines(facts: &FactsA, view: &RepoView) -> Vec<Ungrounded> {
    let mut files = Files::new(view.clone(), MAX_READ);
    let behind = |(path, end): (&str, u32)| {
        // A file past the budget was not read, so nothing is wrong with it.
        let lines = files.lines(path).filter(|lines| *lines < end)?;
        let (field, path) = ("facts".to_owned(), path.to_owned());
        Some(Ungrounded::NoSuchLines { field, path, start: end, end, lines })
    };
    facts.last_lines().into_iter().filter_map(behind).take(MOST).collect()
}

/// The files of a repository during one check. Each is looked up once, and read once if the report names lines of it.
struct Files {
    view: RepoView,
    there: HashMap<String, bool>,
    lines: HashMap<String, Option<u32>>,
    left: u64,
    /// The budget was not enough.
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
        let seen =
            self.spend(LOOK).and_then(|()| self.view.resolve("", path, FollowLinks::Yes).ok());
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

    /// Listings show links and directories as well, so the Scout gets the reason why they do not count.
    fn why_not(&mut self, path: &str) -> &'static str {
        let seen =
            self.spend(LOOK).and_then(|()| self.view.resolve("", path, FollowLinks::No).ok());
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

/// Mistakes of one report that are listed. They go back to the Scout, which needs no longer list to try again.
const MOST: usize = 20;
const ABSENT: &str = "is not in the repository";
/// Characters of a path that are shown in a message.
const SHOWN: usize = 120;

/// A path or a range of lines in a report that the repository does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ungrounded {
    #[error("{field}: {path:?} {why}")]
    NoSuchFile { field: String, path: String, why: &'static str },
    #[error("{field}: lines {start}-{end} are not in {path:?}, which has {lines}")]
    NoSuchLines { field: String, path: String, start: u32, end: u32, lines: u32 },
}

/// The files against which a report is checked.
pub trait InView {
    /// Returns whether there is a file of that name, text or not.
    fn has(&mut self, path: &str) -> bool;
    /// Returns why a name is no file that a report may name.
    fn why_not(&mut self, _path: &str) -> &'static str {
        ABSENT
    }
    /// Returns the number of lines of a file, 0 for a file that is not text.
    fn lines(&mut self, path: &str) -> u32;
}

/// A function from the path of a text file to the number of its lines.
impl<F: FnMut(&str) -> Option<u32>> InView for F {
    fn has(&mut self, path: &str) -> bool {
        self(path).is_some()
    }

    fn lines(&mut self, path: &str) -> u32 {
        self(path).unwrap_or(0)
    }
}

/// Collects the mistakes of one report.
struct Check<'a, V> {
    view: &'a mut V,
    wrong: Vec<Ungrounded>,
}

impl<V: InView> Check<'_, V> {
    fn path(&mut self, field: impl FnOnce() -> String, path: &str) -> bool {
        let there = self.view.has(path);
        // Past the bound of the list, no reason has to be found.
        if !there && self.wrong.len() < MOST {
            let why = self.view.why_not(path);
            self.add(Ungrounded::NoSuchFile { field: field(), path: shown(path), why });
        }
        there
    }

    /// Checks a path with a symbol or a line after a `:`. Names of files may contain colons too, so any part before a colon
    /// may be the file.
    fn place(&mut self, field: impl FnOnce() -> String, entry: &str) {
        let colons = entry.match_indices(':').take(MOST).map(|(at, _)| &entry[..at]);
        if !colons.chain([entry]).any(|path| self.view.has(path)) {
            self.path(field, entry);
        }
    }

    fn range(&mut self, field: impl Fn() -> String, path: &str, start: u32, end: u32) {
        if !self.path(&field, path) {
            return;
        }
        let lines = self.view.lines(path);
        if !(1 <= start && start <= end && end <= lines) {
            self.add(Ungrounded::NoSuchLines {
                field: field(),
                path: shown(path),
                start,
                end,
                lines,
            });
        }
    }

    fn add(&mut self, wrong: Ungrounded) {
        if self.wrong.len() < MOST {
            self.wrong.push(wrong);
        }
    }
}

/// Returns what is wrong with a report of Scout A; an empty list when every path and line exists.
pub fn ground_a(report: &ReportA, view: &mut impl InView) -> Vec<Ungrounded> {
    let mut check = Check { view, wrong: Vec::new() };
    for (i, file) in report.repo_map.relevant_files.iter().enumerate() {
        check.path(|| format!("repo_map.relevant_files[{i}].path"), &file.path);
    }
    for (i, entry) in report.repo_map.entry_points.iter().enumerate() {
        check.place(|| format!("repo_map.entry_points[{i}]"), entry);
    }
    for (from, to) in &report.repo_map.dependency_graph {
        for path in std::iter::once(from).chain(to) {
            check.path(|| "repo_map.dependency_graph".to_owned(), path);
        }
    }
    for (i, zone) in report.risk_zones.iter().enumerate() {
        check.range(|| format!("risk_zones[{i}]"), &zone.file, zone.start_line, zone.end_line);
    }
    for (i, slice) in report.change_boundaries.safe_slices.iter().enumerate() {
        for path in &slice.files {
            check.path(|| format!("change_boundaries.safe_slices[{i}].files"), path);
        }
    }
    for (i, art) in report.prior_art.iter().enumerate() {
        check.path(|| format!("prior_art[{i}].file"), &art.file);
    }
    for (i, excerpt) in report.excerpts.iter().enumerate() {
        let Excerpt { file, start_line, end_line } = excerpt;
        check.range(|| format!("excerpts[{i}]"), file, *start_line, *end_line);
    }
    check.wrong
}

/// Returns what is wrong with a report of Scout B; an empty list when every path exists.
fn ground_b(report: &ReportB, view: &mut impl InView) -> Vec<Ungrounded> {
    let mut check = Check { view, wrong: Vec::new() };
    let affected = report.failure_analysis.iter().flat_map(|analysis| &analysis.affected_files);
    for (i, path) in affected.enumerate() {
        check.path(|| format!("failure_analysis.affected_files[{i}]"), path);
    }
    check.wrong
}

/// Returns the places that are not in the repository. `lines` returns how many lines a file in view has.
pub fn ground_facts_b(
    facts: &FactsB,
    mut lines: impl FnMut(&str) -> Option<u32>,
) -> Vec<Ungrounded> {
    let wrong = |Location { path, line }: &Location| {
        let (field, path) = ("facts".to_owned(), path.clone());
        match lines(&path) {
            None => Some(Ungrounded::NoSuchFile { field, path, why: ABSENT }),
            Some(last) if 1 <= *line && *line <= last => None,
            Some(lines) => {
                Some(Ungrounded::NoSuchLines { field, path, start: *line, end: *line, lines })
            }
        }
    };
    facts.locations().filter_map(wrong).take(MOST).collect()
}

fn shown(path: &str) -> String {
    path.chars().take(SHOWN).collect()
}

/// Mistakes that are listed for one report.
const MAX_ERRORS: usize = 5;
/// Characters of a line about a report.
const MAX_LINE: usize = 200;

/// The schema of reports that the author of a Scout wrote into the component's manifest. Clones share it.
#[derive(Debug, Clone)]
pub struct OwnReport(Option<Arc<ReportSchema>>);

#[derive(Debug)]
struct ReportSchema {
    validator: Validator,
    /// How many parts of the schema a validation visits for one value.
    visits: u64,
}

/// Maximum memory of one regular expression of the schema, in bytes. Most need some kilobytes.
const MAX_PATTERN: usize = 1 << 20;

impl OwnReport {
    /// Compiles the schema. Patterns match in linear time, and nothing is fetched. Without a schema any JSON fits.
    ///
    /// # Errors
    ///
    /// The text is not a JSON Schema, or beyond the bounds of [`act_core::schema_visits`].
    pub fn new(schema: Option<&str>) -> Result<Self, String> {
        let Some(schema) = schema else { return Ok(Self(None)) };
        let visits = act_core::schema_visits(schema).map_err(|error| error.to_string())?;
        let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
        let patterns = PatternOptions::regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
        let options = jsonschema::options().with_pattern_options(patterns);
        let validator = options.build(&schema).map_err(|error| error.to_string())?;
        Ok(Self(Some(Arc::new(ReportSchema { validator, visits }))))
    }

    /// Checks a report and returns one line about it.
    ///
    /// # Errors
    ///
    /// The report is not JSON, or it does not fit the schema.
    pub fn check(&self, raw: &str) -> Result<String, String> {
        let report: Value =
            serde_json::from_str(raw).map_err(|error| format!("the report is no JSON: {error}"))?;
        self.fits(&report).map_err(|why| format!("the report does not fit its schema: {why}"))?;
        Ok(summary(&report))
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// The parts that do not fit the schema.
    pub fn fits(&self, value: &Value) -> Result<(), String> {
        if self.0.as_ref().is_some_and(|schema| !act_core::is_checkable(schema.visits, value)) {
            return Err(
                "it is so large that comparing it with the schema would take minutes".to_owned()
            );
        }
        let errors = self.0.iter().flat_map(|schema| schema.validator.iter_errors(value));
        let wrong: Vec<_> = errors
            .take(MAX_ERRORS)
            .map(|error| one_line(&format!("{}: {}", error.instance_path(), error.masked())))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

/// The field `summary` of a report, or else the names of its fields.
fn summary(report: &Value) -> String {
    if let Some(summary) = report.get("summary").and_then(Value::as_str) {
        return one_line(summary);
    }
    match report {
        Value::Object(fields) => one_line(&fields.keys().cloned().collect::<Vec<_>>().join(", ")),
        other => one_line(&other.to_string()),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LINE).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::scout::SchemaError;
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

    fn zone(file: &str, start: u32, end: u32) -> serde_json::Value {
        json!({"file": file, "start_line": start, "end_line": end, "risk_level": "low", "complexity": "low",
               "dependencies": ["anything"], "invariants": [], "rationale": ""})
    }

    /// A report whose risk zones are the first line of one file.
    fn zones(path: &str, times: usize) -> String {
        json!({
            "schema_version": "1",
            "repo_map": {"relevant_files": [], "entry_points": [], "dependency_graph": {}},
            "risk_zones": vec![zone(path, 1, 1); times],
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
        // A report that names only the path needs no bytes of the file.
        assert!(check("scout-b", &blaming("a", 1), &mut files(root.path(), LOOK)).is_ok());
    }

    #[test]
    fn a_check_leaves_the_thread_that_asks_for_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a"), "x").unwrap();
        let check = Grounded::new(RepoView::open(root.path(), Profile::Scout).unwrap());
        // The only thread for blocking work is busy until `go_on`.
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
            let zones: Vec<_> =
                zones.into_iter().map(|(file, start, end)| zone(&file, start, end)).collect();
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

    /// `src/a.rs` has ten lines, `cmd/x:y.go` is there and no text.
    struct Ten;

    impl InView for Ten {
        fn has(&mut self, path: &str) -> bool {
            ["src/a.rs", "cmd/x:y.go"].contains(&path)
        }

        fn lines(&mut self, path: &str) -> u32 {
            if path == "src/a.rs" { 10 } else { 0 }
        }
    }

    fn report_a(path: &str, zones: Vec<serde_json::Value>) -> ReportA {
        let mut report: serde_json::Value = serde_json::from_str(&self::zones(path, 0)).unwrap();
        report["repo_map"] = json!({
            "relevant_files": [{"path": path, "purpose": "", "relevance": "primary"}],
            "entry_points": [format!("{path}:main")], "dependency_graph": {path: [path]}});
        report["risk_zones"] = zones.into();
        report["change_boundaries"]["safe_slices"] = json!([
            {"id": "s", "files": [path], "description": "", "complexity": "low", "order": 1}]);
        report["prior_art"] = json!([{"file": path, "description": "", "relevance": ""}]);
        ReportA::parse(&report.to_string()).unwrap()
    }

    // SCOUT-8
    #[test]
    fn paths_that_exist_and_ranges_inside_their_file_are_grounded() {
        let report = report_a("src/a.rs", vec![zone("src/a.rs", 1, 10), zone("src/a.rs", 10, 10)]);
        assert_eq!(ground_a(&report, &mut Ten), []);
        assert_eq!(ground_a(&report_a("cmd/x:y.go", vec![]), &mut Ten), []);
        let binary = ground_a(&report_a("cmd/x:y.go", vec![zone("cmd/x:y.go", 1, 1)]), &mut Ten);
        assert!(binary[0].to_string().ends_with("which has 0"), "{binary:?}");
    }

    #[test]
    fn every_place_that_names_a_missing_file_is_listed() {
        let wrong = ground_a(&report_a("ghost.rs", vec![zone("ghost.rs", 1, 1)]), &mut Ten);
        let fields = wrong.iter().map(|wrong| match wrong {
            Ungrounded::NoSuchFile { field, .. } | Ungrounded::NoSuchLines { field, .. } => {
                field.as_str()
            }
        });
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                "repo_map.relevant_files[0].path",
                "repo_map.entry_points[0]",
                "repo_map.dependency_graph",
                "repo_map.dependency_graph",
                "risk_zones[0]",
                "change_boundaries.safe_slices[0].files",
                "prior_art[0].file",
            ]
        );
        assert_eq!(wrong[4].to_string(), "risk_zones[0]: \"ghost.rs\" is not in the repository");
    }

    #[test]
    fn ranges_outside_their_file_or_backwards_are_not_grounded() {
        for (start, end) in [(0, 3), (9, 11), (5, 4), (11, 11)] {
            let report = report_a("src/a.rs", vec![zone("src/a.rs", start, end)]);
            let wrong = ground_a(&report, &mut Ten);
            let said =
                format!("risk_zones[0]: lines {start}-{end} are not in \"src/a.rs\", which has 10");
            assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
        }
    }

    #[test]
    fn the_list_is_bounded() {
        let zones = (0..100).map(|_| zone("ghost.rs", 1, 1)).collect();
        assert_eq!(ground_a(&report_a("src/a.rs", zones), &mut Ten).len(), MOST);
    }

    #[test]
    fn files_that_a_failure_is_blamed_on_exist() {
        let mut report: serde_json::Value = serde_json::from_str(&blaming("src/a.rs", 1)).unwrap();
        report["failure_analysis"]["affected_files"] = json!(["src/a.rs", "b.rs"]);
        let report = ReportB::parse(&report.to_string()).unwrap();
        let wrong = ground_b(&report, &mut Ten);
        assert_eq!(wrong.len(), 1);
        assert_eq!(
            wrong[0].to_string(),
            "failure_analysis.affected_files[1]: \"b.rs\" is not in the repository"
        );
    }

    // CAPABILITY-28
    #[test]
    fn a_report_fits_the_schema_of_its_scout() {
        let schema = r#"{"type":"object","required":["files"],"additionalProperties":false,
            "properties":{"files":{"type":"array","items":{"type":"string"}},"summary":{"type":"string"}}}"#;
        let report = OwnReport::new(Some(schema)).unwrap();
        assert_eq!(report.check(r#"{"files":["a"],"summary":"two\nlines"}"#).unwrap(), "two lines");
        assert_eq!(report.check(r#"{"files":[]}"#).unwrap(), "files");
        for (bad, says) in [("[", "no JSON"), ("{}", "files"), (r#"{"files":[1]}"#, "/files/0")] {
            let wrong = report.check(bad).unwrap_err();
            assert!(wrong.contains(says), "{wrong}");
        }
        assert!(OwnReport::new(None).unwrap().check("[1]").is_ok());
        assert!(OwnReport::new(Some(r#"{"type":"nothing"}"#)).is_err());
        assert!(
            OwnReport::new(Some(r#"{"$ref":"https://example.com/x"}"#)).is_err(),
            "nothing is fetched"
        );
    }

    // CAPABILITY-51, security line 303
    #[test]
    fn a_report_that_would_be_checked_for_minutes_does_not_fit() {
        let items = serde_json::json!({"items": {"anyOf": vec![json!({"type": "string"}); 1000]}});
        let report = OwnReport::new(Some(&items.to_string())).unwrap();
        assert!(report.check(r#"["a"]"#).is_ok());
        let large = serde_json::to_string(&vec![0; 500_000]).unwrap();
        assert!(report.check(&large).unwrap_err().contains("so large"));
    }

    /// The error of `parse` for a report after a change.
    fn refused<T: std::fmt::Debug>(
        report: &str,
        parse: fn(&str) -> Result<T, SchemaError>,
        change: fn(&mut serde_json::Value),
    ) -> String {
        let mut report = serde_json::from_str(report).unwrap();
        change(&mut report);
        parse(&report.to_string()).unwrap_err().to_string()
    }

    #[test]
    fn unknown_and_missing_fields_and_words_of_a_report_a_are_refused_by_name() {
        let refused = |change| refused(&zones("a.rs", 1), ReportA::parse, change);
        assert!(refused(|r| r["extra"] = json!(1)).contains("unknown field `extra`"));
        assert!(refused(|r| r["risk_zones"][0]["why"] = json!("")).contains("unknown field `why`"));
        let level = refused(|r| r["risk_zones"][0]["risk_level"] = json!("huge"));
        assert!(level.contains("unknown variant `huge`"));
        let order = refused(|r| {
            let slice = json!({"id": "s", "files": [], "description": "x", "complexity": "medium"});
            r["change_boundaries"]["safe_slices"] = json!([slice]);
        });
        assert!(order.contains("missing field `order`"));
    }

    #[test]
    fn unknown_and_missing_fields_and_words_of_a_report_b_are_refused_by_name() {
        let refused = |change| refused(&blaming("a.go", 1), ReportB::parse, change);
        assert!(refused(|r| r["test"]["skip"] = json!([])).contains("unknown field `skip`"));
        let system = refused(|r| r["build"]["detected_system"] = json!("bazel"));
        assert!(system.contains("unknown variant `bazel`"));
        let install = refused(|r| {
            r["build"]["commands"].as_object_mut().unwrap().remove("install");
        });
        assert!(install.contains("missing field `install`"));
    }

    // EVENT-8
    #[test]
    fn the_schemas_of_the_facts_are_published() {
        act_core::event::schema::holds::<FactsA>("scout-a-facts");
        act_core::event::schema::holds::<FactsB>("scout-b-facts");
    }
}
