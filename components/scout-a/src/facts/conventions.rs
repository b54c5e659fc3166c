//! Counts conventions: what most of the source does, in how many cases, and where to see it.
//!
//! A sample of the files that people wrote is read. It is spread evenly over the repository and always the same.

use crate::survey::Survey;
use act_kit::inventory::name;
use act_kit::reports::facts_a::{Convention, Example};
use act_kit::reports::source;
use act_kit::world::Repository;

/// Maximum number of files in the sample, and of bytes that are read of each.
const FILES: usize = 160;
const BYTES: u64 = 64 << 10;
/// Minimum number of cases that make a convention.
const FEW: u32 = 3;
const EXAMPLES: usize = 3;
/// Line widths that editors and formatters are usually set to.
const WIDTHS: [usize; 5] = [80, 88, 100, 120, 140];

/// A topic, and the language that it is counted for.
type Topic = (&'static str, Option<&'static str>);

/// A value of a topic, and how often it was found.
struct Case {
    topic: Topic,
    value: String,
    count: u32,
    /// The first places with this value, in different files.
    examples: Vec<Example>,
}

/// Cases of all topics. Those that are found often come first, because they are searched in order.
#[derive(Default)]
struct Counts(Vec<Case>);

impl Counts {
    fn add(
        &mut self,
        topic: &'static str,
        language: Option<&'static str>,
        value: &str,
        at: (&str, u32),
    ) {
        let topic = (topic, language);
        let known = self.0.iter().position(|case| case.value == value && case.topic == topic);
        let place = known.unwrap_or_else(|| {
            self.0.push(Case { topic, value: value.to_owned(), count: 0, examples: vec![] });
            self.0.len() - 1
        });
        let case = &mut self.0[place];
        case.count += 1;
        if case.examples.len() < EXAMPLES
            && case.examples.last().is_none_or(|last| last.path != at.0)
        {
            case.examples.push(Example { path: at.0.to_owned(), line: at.1 });
        }
        self.0.swap(place, place.saturating_sub(1));
    }

    /// Returns the most frequent value of each topic.
    fn most(mut self) -> Vec<Convention> {
        self.0.sort_by(|a, b| {
            (a.topic, b.count).cmp(&(b.topic, a.count)).then_with(|| a.value.cmp(&b.value))
        });
        let topics = self.0.chunk_by(|a, b| a.topic == b.topic);
        let most = topics.filter_map(|cases| {
            let total = cases.iter().map(|case| case.count).sum::<u32>();
            let Case { topic: (topic, language), value, count, examples } = cases.first()?;
            (total >= FEW).then(|| Convention {
                topic: (*topic).to_owned(),
                language: language.map(str::to_owned),
                value: value.clone(),
                count: u64::from(*count),
                total: u64::from(total),
                examples: examples.clone(),
            })
        });
        most.collect()
    }
}

pub(super) fn of(repository: &dyn Repository, survey: &Survey) -> Vec<Convention> {
    let mut counts = Counts::default();
    let mut widths = Widths::default();
    for at in survey.all() {
        let (path, unit) = (survey.path(at), survey.unit(at));
        if unit.language.is_none() || unit.generated {
            continue;
        }
        if let (Some(style), false) = (naming(stem(path)), unit.is_test) {
            counts.add("file_naming", unit.language, style, (path, 1));
        }
        if let Some(place) = test_place(survey, at) {
            counts.add("test_placement", unit.language, place, (path, 1));
        }
    }
    let sample = sample(survey);
    for part in sample.chunks(32) {
        let paths = part.iter().map(|at| survey.path(*at)).collect::<Vec<_>>();
        for ((at, path), text) in part.iter().zip(&paths).zip(repository.read(&paths, BYTES)) {
            let (Ok(text), Some(language)) = (text, survey.unit(*at).language) else { continue };
            // A check of the whole text is much faster than a search for its first odd byte.
            let text = String::from_utf8(text)
                .unwrap_or_else(|odd| String::from_utf8_lossy(odd.as_bytes()).into_owned());
            let lines = text.lines().collect::<Vec<_>>();
            let trimmed = lines.iter().map(|line| line.trim()).collect::<Vec<_>>();
            if let Some((indent, line)) = indent(&lines) {
                counts.add("indent", Some(language), &indent, (path, line));
            }
            // A search for one byte is much faster than one for two.
            let ending = if text.contains('\r') && text.contains("\r\n") { "CRLF" } else { "LF" };
            counts.add("line_ending", None, ending, (path, 1));
            file(language, path, &trimmed, &mut counts);
            if !survey.unit(*at).is_test {
                errors(language, path, &trimmed, &mut counts);
            }
            widths.file(path, &lines, &trimmed);
        }
    }
    let mut found = counts.most();
    found.extend(widths.convention());
    found.sort_by(|a, b| (&a.topic, &a.language).cmp(&(&b.topic, &b.language)));
    found
}

fn sample(survey: &Survey) -> Vec<u32> {
    let wrote = |at: &u32| {
        let unit = survey.unit(*at);
        unit.language.is_some() && !unit.generated && unit.lines > 2
    };
    let all = survey.all().filter(wrote).collect::<Vec<_>>();
    let step = all.len().div_ceil(FILES).max(1);
    all.into_iter().step_by(step).collect()
}

/// Counts the conventions in the lines of one file, which have no white space around them.
fn file(language: &'static str, path: &str, trimmed: &[&str], counts: &mut Counts) {
    let here = Some(language);
    let lines = || trimmed.iter().enumerate().map(|(at, line)| (at as u32 + 1, *line));
    match language {
        "Python" | "JavaScript" | "TypeScript" => {
            for (number, line) in lines().filter(|(_, line)| !is_comment(line)) {
                let quote = line.bytes().position(|byte| matches!(byte, b'"' | b'\''));
                match quote.map(|at| &line[at..]) {
                    Some(rest) if rest.starts_with("\"\"\"") || rest.starts_with("'''") => {}
                    Some(rest) if rest.starts_with('"') => {
                        counts.add("quotes", here, "double", (path, number))
                    }
                    Some(_) => counts.add("quotes", here, "single", (path, number)),
                    None => {}
                }
            }
        }
        _ => {}
    }
    if matches!(language, "JavaScript" | "TypeScript") {
        for (number, line) in lines().filter(|(_, line)| line.len() > 3 && !is_comment(line)) {
            match line.as_bytes().last() {
                Some(b';') => counts.add("semicolons", here, "always", (path, number)),
                Some(b')' | b'\'' | b'"' | b'`') if !line.starts_with(['<', '.', '}']) => {
                    counts.add("semicolons", here, "left out", (path, number));
                }
                _ => {}
            }
        }
    }
    for (number, name) in
        lines().filter_map(|(number, line)| Some((number, defined(language, line)?)))
    {
        if let Some(style) = naming(name) {
            counts.add("function_naming", here, style, (path, number));
        }
    }
}

/// Counts how errors are handled. The part of a Rust file below its tests does not count.
fn errors(language: &'static str, path: &str, trimmed: &[&str], counts: &mut Counts) {
    let lines = trimmed.iter().take_while(|line| **line != "#[cfg(test)]");
    for (at, line) in lines.enumerate().filter(|(_, line)| !is_comment(line)) {
        if let Some(how) = error_handling(language, line) {
            counts.add("error_handling", Some(language), how, (path, at as u32 + 1));
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//")
        || line.starts_with('#')
        || line.starts_with('*')
        || line.starts_with("/*")
}

/// Returns how a file is indented, and the first line that shows it.
fn indent(lines: &[&str]) -> Option<(String, u32)> {
    let (mut tabs, mut steps, mut before) = (0_u32, [0_u32; 9], 0);
    let mut first: [Option<u32>; 10] = [None; 10];
    for (at, line) in lines.iter().enumerate() {
        let number = at as u32 + 1;
        if line.starts_with('\t') {
            tabs += 1;
            first[9].get_or_insert(number);
            continue;
        }
        let spaces = line.len() - line.trim_start_matches(' ').len();
        let inner = &line[spaces..];
        if inner.is_empty() || inner.starts_with('*') {
            continue;
        }
        let deeper = spaces.saturating_sub(before);
        if (2..=8).contains(&deeper) {
            steps[deeper] += 1;
            first[deeper].get_or_insert(number);
        }
        before = spaces;
    }
    let (width, count) =
        steps.iter().enumerate().max_by_key(|(width, count)| (**count, 9 - width))?;
    if tabs > 0 && tabs >= *count {
        return Some(("tabs".to_owned(), first[9]?));
    }
    (*count > 0).then_some((format!("{width} spaces"), first[width]?))
}

/// Returns how a line handles an error, if it does.
fn error_handling(language: &str, line: &str) -> Option<&'static str> {
    let has = |text: &str| has(line, text);
    match language {
        "Rust" if has(".unwrap()") || has(".expect(") => Some("unwrap or expect"),
        "Rust" if has("?;") || has("?)") || line.ends_with('?') || has("?.") => {
            Some("handed on with ?")
        }
        "Python" if line.starts_with("except:") => Some("bare except"),
        "Python" if line.starts_with("except") => Some("named except"),
        "JavaScript" | "TypeScript" if has(".catch(") => Some(".catch()"),
        "JavaScript" | "TypeScript" if has("catch (") || has("catch {") => Some("try and catch"),
        "Go" if line.starts_with("if err != nil") || has("; err != nil") => Some("if err != nil"),
        "Go" if line.starts_with("panic(") => Some("panic"),
        "Java" if has("catch (") => Some("catch"),
        "Java" if has(" throws ") => Some("throws"),
        _ => None,
    }
}

/// Returns whether a short line has a text. `str::contains` prepares each search, which takes longer than this one.
fn has(line: &str, text: &str) -> bool {
    let (line, text) = (line.as_bytes(), text.as_bytes());
    line.windows(text.len()).any(|part| part[0] == text[0] && part == text)
}

/// What may stand before the word that begins a function.
const MODIFIERS: [&str; 7] = ["pub", "async", "const", "unsafe", "export", "default", "extern"];

/// Returns the name of the function that a line defines.
fn defined<'l>(language: &str, line: &'l str) -> Option<&'l str> {
    let after_modifiers = match language {
        "Rust" => " fn ",
        "Python" => " def ",
        "Go" => " func ",
        "JavaScript" | "TypeScript" => " function ",
        _ => return None,
    };
    let is_modifier = |part: &str| MODIFIERS.iter().any(|word| part.starts_with(word));
    let rest = match line.strip_prefix(&after_modifiers[1..]) {
        Some(rest) => rest,
        // Few lines begin with a modifier, and only those are searched.
        None if !is_modifier(line) => return None,
        None => {
            let (before, rest) = line.split_once(after_modifiers)?;
            before.split_whitespace().all(is_modifier).then_some(rest)?
        }
    };
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    Some(rest[..end].trim_matches('_')).filter(|name| !name.is_empty())
}

/// Returns the style of a name that has more than one word.
fn naming(name: &str) -> Option<&'static str> {
    let name = name.trim_matches(['_', '-', '.']);
    let (mut upper, mut lower, mut hyphen, mut underscore) = (false, false, false, false);
    let mut look_at = |c: char| {
        upper |= c.is_uppercase();
        lower |= c.is_lowercase();
        hyphen |= c == '-';
        underscore |= c == '_';
    };
    match name.is_ascii() {
        true => name.bytes().for_each(|byte| look_at(char::from(byte))),
        false => name.chars().for_each(look_at),
    }
    let begins_upper = name.chars().next().is_some_and(char::is_uppercase);
    match () {
        () if hyphen => Some("kebab-case"),
        () if underscore && !upper => Some("snake_case"),
        () if underscore => None,
        () if begins_upper && lower => Some("PascalCase"),
        () if upper && lower => Some("camelCase"),
        _ => None,
    }
}

fn stem(path: &str) -> &str {
    source::stem(name(path))
}

fn test_place(survey: &Survey, at: u32) -> Option<&'static str> {
    let (unit, path) = (survey.unit(at), survey.path(at));
    let is_apart = || {
        let mut directories = path.split('/').rev().skip(1);
        directories.any(|part| matches!(part, "test" | "tests" | "__tests__" | "spec"))
    };
    match (unit.is_test, unit.tests > 0) {
        (true, true) if is_apart() => Some("in a directory of tests"),
        (true, true) => Some("beside the source"),
        (false, true) => Some("in the source file"),
        _ => None,
    }
}

/// Counts the widths of lines.
#[derive(Default)]
struct Widths {
    total: u32,
    within: [u32; WIDTHS.len()],
    longest: Vec<(usize, Example)>,
}

impl Widths {
    fn file(&mut self, path: &str, lines: &[&str], trimmed: &[&str]) {
        let mut longest = (0, 1);
        let lines = lines.iter().zip(trimmed).enumerate();
        for (at, (line, _)) in lines.filter(|(_, (_, trimmed))| !trimmed.is_empty()) {
            let width = line.chars().count();
            self.total += 1;
            for (within, most) in self.within.iter_mut().zip(WIDTHS) {
                *within += u32::from(width <= most);
            }
            longest = longest.max((width, at as u32 + 1));
        }
        self.longest.push((longest.0, Example { path: path.to_owned(), line: longest.1 }));
        self.longest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.path.cmp(&b.1.path)));
        self.longest.truncate(EXAMPLES * 8);
    }

    /// Returns the smallest usual width that 99 % of the lines keep.
    fn convention(self) -> Option<Convention> {
        let (count, width) =
            self.within.iter().zip(WIDTHS).find(|(within, _)| **within * 100 >= self.total * 99)?;
        let examples =
            self.longest.into_iter().filter(|(longest, _)| *longest <= width && *longest > 0);
        (self.total >= 20).then(|| Convention {
            topic: "line_length".to_owned(),
            language: None,
            value: format!("at most {width}"),
            count: u64::from(*count),
            total: u64::from(self.total),
            examples: examples.take(EXAMPLES).map(|(_, example)| example).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_are_told_by_what_most_lines_do() {
        assert_eq!(indent(&["a", "\tb", "\tc"]), Some(("tabs".to_owned(), 2)));
        let nested = ["a:", "  b:", "    c", "d:", "  e"];
        assert_eq!(indent(&nested), Some(("2 spaces".to_owned(), 2)));
        assert_eq!(indent(&["fn a() {", "    b();", "}"]), Some(("4 spaces".to_owned(), 2)));
        assert_eq!(indent(&["/*", " * x", " */", "a"]), None);
    }

    #[test]
    fn names_are_told_by_how_their_words_are_joined() {
        for (name, style) in [
            ("parse_price", Some("snake_case")),
            ("parse-price", Some("kebab-case")),
            ("parsePrice", Some("camelCase")),
            ("ParsePrice", Some("PascalCase")),
            ("parse", None),
            ("LIMIT", None),
        ] {
            assert_eq!(naming(name), style, "{name}");
        }
    }

    #[test]
    fn functions_are_known_by_the_word_before_their_name() {
        for (language, line, name) in [
            ("Rust", "pub(crate) async fn go_on(&self) {", Some("go_on")),
            ("Rust", "let f = the fn of(x)", None),
            ("Rust", "pub let f = the fn of(x)", None),
            ("Python", "async def go_on(self):", Some("go_on")),
            ("Python", "def go_on(self):", Some("go_on")),
            ("Go", "func (c *Cart) Total() int {", None),
            ("JavaScript", "export default function goOn() {", Some("goOn")),
        ] {
            assert_eq!(defined(language, line), name, "{line}");
        }
    }
}
