//! What can be said about a repository without a model, and how the model is told.

use crate::report::{Conventions, Relevance, RelevantFile, RepoMap, Report};
use scouting::inventory::{Inventory, identifiers, is_test, language, name};
use scouting::quoting::{cut, file, log};
use scouting::world::{Question, Repository};
use serde_json::Value;

/// Bytes of the parts of the first message. Together with the tools they leave a small repository's prompt near
/// 6 kB.
const QUESTION: usize = 4_000;
const OUTLINE: usize = 1_200;
const HITS: usize = 800;
const FILES: usize = 1_600;
const LOG: usize = 1_500;

/// The first message: question, what the host added, and enough of the repository to answer simple questions at once.
pub(crate) fn opening(
    repository: &dyn Repository,
    inventory: &Inventory,
    question: &Question,
) -> String {
    let mut text = format!("Question: {}\n", cut(question.text.trim(), QUESTION));
    if let Some(package) = question.context("package") {
        text.push_str(&format!("The work is limited to the directory {}.\n", cut(package, 200)));
    }
    if let Some(rejection) = question.context("rejection") {
        text.push_str(&format!("Your last report was rejected: {}\n", cut(rejection, 1_000)));
    }
    for name in ["failing_step", "tail_log"] {
        if let Some(output) = question.context(name) {
            text.push_str(&log(name, output, LOG));
        }
    }
    text.push_str(&format!("<repository>\n{}</repository>\n", inventory.outline(OUTLINE)));
    let ranked = inventory.ranked(&question.text);
    if inventory.files.len() > 30 && !ranked.is_empty() {
        let paths = ranked.iter().take(12).map(|(file, _)| file.path.as_str()).collect::<Vec<_>>();
        text.push_str(&format!("Paths like the question: {}\n", paths.join(", ")));
    }
    text.push_str(&hits(repository, &question.text));
    text.push_str(&contents(repository, inventory, question));
    text
}

/// Where the identifiers of the question stand.
fn hits(repository: &dyn Repository, question: &str) -> String {
    let identifiers = identifiers(question);
    if identifiers.is_empty() {
        return String::new();
    }
    let regex = format!("\\b({})\\b", identifiers.join("|"));
    let Ok(found) = repository.search(&regex, None, 20) else { return String::new() };
    let mut lines = String::new();
    for hit in found.items {
        let line = format!("{}:{}| {}\n", hit.path, hit.line, cut(hit.text.trim(), 120));
        if lines.len() + line.len() > HITS {
            break;
        }
        lines.push_str(&line);
    }
    if lines.is_empty() { lines } else { format!("<hits>\n{lines}</hits>\n") }
}

/// The files that matter most, whole, as far as they are small.
fn contents(repository: &dyn Repository, inventory: &Inventory, question: &Question) -> String {
    let ranked = inventory.ranked(&question.text).into_iter().map(|(file, _)| file);
    let source = inventory.files.iter().filter(|file| language(&file.path).is_some());
    let mut wanted = Vec::new();
    for candidate in ranked.chain(source) {
        let small = candidate.size > 0 && candidate.size as usize <= FILES;
        if small && wanted.len() < 6 && !wanted.contains(&candidate.path.as_str()) {
            wanted.push(candidate.path.as_str());
        }
    }
    let mut text = String::new();
    for (path, bytes) in wanted.iter().zip(repository.read(&wanted, FILES as u64)) {
        let Ok(bytes) = bytes else { continue };
        let shown = file(path, &String::from_utf8_lossy(&bytes));
        if text.len() + shown.len() <= FILES {
            text.push_str(&shown);
        }
    }
    text
}

/// The report that facts alone give.
pub(crate) fn report(inventory: &Inventory, question: &Question) -> Report {
    let ranked = inventory.ranked(&question.text);
    let best = ranked.first().map_or(0, |(_, score)| *score);
    let relevant = ranked.iter().take(10).map(|(file, score)| RelevantFile {
        path: file.path.clone(),
        purpose: purpose(&file.path),
        relevance: match *score {
            score if score == best => Relevance::Primary,
            score if score * 2 >= best => Relevance::Secondary,
            _ => Relevance::Context,
        },
    });
    let tests = inventory.paths().filter(|path| is_test(path)).take(5).collect::<Vec<_>>();
    let tips = match tests.is_empty() {
        true => vec!["no tests were found by name".to_owned()],
        false => vec![format!("tests: {}", tests.join(", "))],
    };
    Report {
        schema_version: Value::from("1"),
        repo_map: RepoMap {
            relevant_files: relevant.collect(),
            entry_points: inventory.entry_points(),
            ..RepoMap::default()
        },
        conventions: Conventions { naming: naming(inventory), ..Conventions::default() },
        verification_tips: tips,
        ..Report::default()
    }
}

fn purpose(path: &str) -> String {
    let kind = if is_test(path) { "tests" } else { "source" };
    match language(path) {
        Some(language) => format!("{language} {kind}, named like the question"),
        None => "named like the question".to_owned(),
    }
}

/// How most source files are named.
fn naming(inventory: &Inventory) -> String {
    let (mut snake, mut kebab, mut camel) = (0, 0, 0);
    for path in inventory.paths().filter(|path| language(path).is_some()) {
        let stem = name(path).split('.').next().unwrap_or_default().trim_matches('_');
        if stem.contains('_') {
            snake += 1;
        } else if stem.contains('-') {
            kebab += 1;
        } else if stem.chars().any(char::is_uppercase) {
            camel += 1;
        }
    }
    match [
        (snake, "snake_case file names"),
        (kebab, "kebab-case file names"),
        (camel, "CamelCase file names"),
    ]
    .into_iter()
    .max_by_key(|(count, _)| *count)
    {
        Some((count, style)) if count > 0 => style.to_owned(),
        _ => String::new(),
    }
}
