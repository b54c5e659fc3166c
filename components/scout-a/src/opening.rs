//! Composes the first message: the question, the host's context, and the facts that the question seems to be about.

use crate::facts::Known;
use crate::survey::Survey;
use act_kit::inventory::identifiers;
use act_kit::quoting::{cut, file, log};
use act_kit::reports::facts_a::Convention;
use act_kit::world::{Question, Repository, World};
use std::collections::HashSet;

/// Maximum sizes of the parts in bytes. With the tools they make a first prompt of about 6 kB for a small repository.
const QUESTION: usize = 4_000;
const MAP: usize = 1_400;
const MAP_FILES: usize = 24;
const OTHERS: usize = 500;
const CONVENTIONS: usize = 350;
const HITS: usize = 700;
const FILES: usize = 1_300;
const LOG: usize = 1_500;

pub(crate) fn opening(world: World<'_>, known: &Known, question: &Question) -> String {
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
    text.push_str(&map(world, known));
    text.push_str(&conventions(&known.conventions(world)));
    text.push_str(&hits(world.repository, &question.text));
    text.push_str(&contents(world.repository, known));
    text
}

/// Lists the best files for the question, each with its lines, importers, tests and names.
fn map(world: World<'_>, known: &Known) -> String {
    let survey = &known.survey;
    let languages = known.languages().into_iter().take(6);
    let languages = languages.map(|(name, files)| format!("{name} {files}")).collect::<Vec<_>>();
    let more = if survey.truncated { "more than " } else { "" };
    let mut text =
        format!("<repository>\n| {more}{} files; {}\n", survey.units.len(), languages.join(", "));
    let mapped = known.map(world, MAP, MAP_FILES);
    let mut shown = HashSet::new();
    for entry in &mapped {
        let line = format!(
            "| {}{}: {}\n",
            clean(&entry.path),
            known.figures(&entry.path),
            entry.symbols.join(", ")
        );
        text.push_str(&cut_line(&line.replace(": \n", "\n"), 300));
        shown.insert(entry.path.as_str());
    }
    text.push_str(&others(survey, &shown));
    text.push_str("</repository>\n");
    text
}

/// Lists the files that the map does not name: by name when that is short, else by directory.
fn others(survey: &Survey, shown: &HashSet<&str>) -> String {
    let rest = survey.inventory.paths().filter(|path| !shown.contains(path)).collect::<Vec<_>>();
    let size = rest.iter().map(|path| path.len() + 2).sum::<usize>();
    if rest.is_empty() {
        return String::new();
    }
    if size <= OTHERS {
        return format!("| other files: {}\n", clean(&rest.join(", ")));
    }
    let outline = survey.inventory.outline(OTHERS);
    let folded = outline.lines().skip(1).map(clean).collect::<Vec<_>>().join(", ");
    format!("| where files are: {}\n", cut(&folded, OTHERS))
}

fn conventions(found: &[Convention]) -> String {
    let mut text = String::new();
    for Convention { topic, language, value, count, total, .. } in found {
        let language = language.as_ref().map_or(String::new(), |language| format!(" ({language})"));
        let one = format!("{}{language}: {value}, {count} of {total}; ", topic.replace('_', " "));
        if text.len() + one.len() > CONVENTIONS {
            break;
        }
        text.push_str(&one);
    }
    if text.is_empty() { text } else { format!("Measured: {}\n", text.trim_end_matches("; ")) }
}

/// Lists the lines that contain the question's identifiers.
fn hits(repository: &dyn Repository, question: &str) -> String {
    let identifiers = identifiers(question);
    if identifiers.is_empty() {
        return String::new();
    }
    let regex = format!("\\b({})\\b", identifiers.join("|"));
    let Ok(found) = repository.search(&regex, None, 20) else { return String::new() };
    let mut lines = String::new();
    for hit in found.items {
        let line = format!("{}:{}| {}\n", clean(&hit.path), hit.line, cut(hit.text.trim(), 120));
        if lines.len() + line.len() > HITS {
            break;
        }
        lines.push_str(&line);
    }
    if lines.is_empty() { lines } else { format!("<hits>\n{lines}</hits>\n") }
}

/// Shows small files of the map as a whole. Files with rank 0 are only listed by name.
fn contents(repository: &dyn Repository, known: &Known) -> String {
    let files = &known.survey.inventory.files;
    let about = known.order.iter().filter(|at| known.ranks[**at as usize] > 0.0);
    let small = about.map(|at| &files[*at as usize]).take(MAP_FILES);
    let small = small.filter(|file| file.size > 0 && file.size as usize <= FILES);
    let wanted = small.take(6).map(|file| file.path.as_str()).collect::<Vec<_>>();
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

/// Replaces control characters, so that a name stays on its line.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn cut_line(line: &str, most: usize) -> String {
    format!("{}\n", cut(line.trim_end(), most))
}
