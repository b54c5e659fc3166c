//! Composes the first message: the question, the host's context, and the facts that the question seems to be about.

use crate::excerpts;
use crate::facts::Known;
use crate::survey::Survey;
use act_kit::quoting::{cut, log, numbered};
use act_kit::reports::facts_a::Convention;
use act_kit::reports::report_a::Excerpt;
use act_kit::world::{Question, World};
use std::collections::HashSet;

/// Maximum sizes of the parts in bytes.
const QUESTION: usize = 4_000;
const MAP: usize = 1_400;
const MAP_FILES: [usize; 3] = [20, 2, 2];
const OTHERS: usize = 500;
const CONVENTIONS: usize = 350;
const LINES: usize = 4_000;
/// Maximum number of bytes of a file that are read to show lines of it.
const FILE: u64 = 256 << 10;
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
    text.push_str(&lines(world, known));
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
    if let Some(unnamed) = survey.inventory.unnamed() {
        text.push_str(&format!("| {unnamed}\n"));
    }
    let mapped = known.map(world, &known.best(MAP_FILES), MAP, MAP);
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

/// Shows the lines that the question is about (see [`excerpts`]), each range between tags.
fn lines(world: World<'_>, known: &Known) -> String {
    let mut text = String::new();
    for Excerpt { file, start_line, end_line } in excerpts::of(world, known, LINES) {
        let Some(Ok(bytes)) = world.repository.read(&[&file], FILE).pop() else { continue };
        let whole = String::from_utf8_lossy(&bytes);
        let shown = numbered(&whole, start_line as usize, end_line as usize, LINES);
        let shown = format!("<file path={file:?}>\n{shown}</file>\n");
        if text.len() + shown.len() > LINES {
            continue;
        }
        text.push_str(&shown);
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
