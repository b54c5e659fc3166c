//! The text of a task, parsed once and never changed, and the paths that its boundaries name.
//!
//! A line that is just `Constraints:`, `Non-goals:` or `Boundaries:` opens a section that reaches to the next such line.
//! Nothing in a section is dropped: a line without a list marker continues the item right above it and is an item of its
//! own elsewhere, because a lost rule would be worse than a repeated one.

use act_core::Failure;

/// Maximum bytes of a task: far more than a person types, and little enough to repeat in every conversation.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The text of a task and its sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    text: String,
    constraints: Vec<String>,
    non_goals: Vec<String>,
    boundaries: Vec<String>,
}

/// Why a text is no task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("task is empty")]
    Empty,
    #[error("task has {bytes} bytes, more than {MAX_TEXT_BYTES}")]
    TooLarge { bytes: usize },
    #[error(
        "Boundaries: cannot enforce {item:?}: it names a path, but it is neither a list of paths nor `do not touch` \
         with a list of paths"
    )]
    BoundaryUnclear { item: String, path: String },
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let (code, hint) = match &error {
            RequestError::Empty => (
                "task_empty",
                "say what is to be done, e.g. `act run \"fix the failing test\"`".to_owned(),
            ),
            RequestError::TooLarge { .. } => (
                "task_too_large",
                "put long material into a file of the repository and name the file".to_owned(),
            ),
            RequestError::BoundaryUnclear { path, .. } => {
                let path = path.trim_start_matches('!');
                (
                    "boundary_unclear",
                    format!(
                        "write `{path}` to allow only that path, `!{path}` to forbid it; move a rule in words to \
                         `Constraints:`"
                    ),
                )
            }
        };
        Self::refused(code, error.to_string()).hint(hint)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Task,
    Constraints,
    NonGoals,
    Boundaries,
}

impl TaskRequest {
    /// Reads the text of a task.
    ///
    /// # Errors
    ///
    /// The text is too large, or it asks for nothing. Sections alone are no task.
    pub fn parse(text: &str) -> Result<Self, RequestError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(RequestError::TooLarge { bytes: text.len() });
        }
        let mut request = Self {
            text: text.trim().to_owned(),
            constraints: vec![],
            non_goals: vec![],
            boundaries: vec![],
        };
        let mut section = Section::Task;
        let mut asks = false;
        let mut continues = false;
        // Every item of the section so far has a marker, and a blank line has followed one.
        let (mut all_marked, mut left) = (true, false);
        for line in text.lines() {
            if let Some(opened) = header(line) {
                (section, continues) = (opened, false);
                (all_marked, left) = (true, false);
                continue;
            }
            if left && all_marked && !line.starts_with([' ', '\t']) && !unmarked(line).1 {
                // Plain text after a list belongs to the task, as it does for a reader.
                section = Section::Task;
            }
            let Some(items) = request.items(section) else {
                asks |= !line.trim().is_empty();
                continue;
            };
            let (item, marked) = unmarked(line);
            all_marked &= marked || item.is_empty() || continues;
            left = line.trim().is_empty() && !items.is_empty();
            match items.last_mut() {
                _ if item.is_empty() => {}
                Some(above) if continues && !marked => {
                    above.push(' ');
                    above.push_str(item);
                }
                _ => items.push(item.to_owned()),
            }
            continues = !item.is_empty();
        }
        if asks { Ok(request) } else { Err(RequestError::Empty) }
    }

    /// The whole text, sections included, as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Items of `Constraints:`.
    pub fn constraints(&self) -> &[String] {
        &self.constraints
    }

    /// Items of `Non-goals:`.
    pub fn non_goals(&self) -> &[String] {
        &self.non_goals
    }

    /// Items of `Boundaries:`.
    pub fn boundaries(&self) -> &[String] {
        &self.boundaries
    }

    /// The boundaries that the host enforces, each with the paths that it names. The others name no path and are text for
    /// the model. `find` returns where a path that the user names is, from the root, or `None` when nothing has
    /// that name.
    ///
    /// # Errors
    ///
    /// `BoundaryUnclear` when an item names a path in a form that is not enforced: guessing could turn a prohibition
    /// into a permission.
    pub fn enforced(
        &self,
        find: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<(&str, Boundary)>, RequestError> {
        let mut enforced = vec![];
        for item in &self.boundaries {
            match read(item, &find) {
                Reading::Enforced(boundary) => enforced.push((item.as_str(), boundary)),
                Reading::ForTheModel => {}
                Reading::Unclear { path } => {
                    return Err(RequestError::BoundaryUnclear { item: item.clone(), path });
                }
            }
        }
        Ok(enforced)
    }

    fn items(&mut self, section: Section) -> Option<&mut Vec<String>> {
        match section {
            Section::Task => None,
            Section::Constraints => Some(&mut self.constraints),
            Section::NonGoals => Some(&mut self.non_goals),
            Section::Boundaries => Some(&mut self.boundaries),
        }
    }
}

fn header(line: &str) -> Option<Section> {
    let line = line.trim();
    let sections = [
        ("constraints:", Section::Constraints),
        ("non-goals:", Section::NonGoals),
        ("boundaries:", Section::Boundaries),
    ];
    sections
        .into_iter()
        .find(|(name, _)| line.eq_ignore_ascii_case(name))
        .map(|(_, section)| section)
}

/// The line without its list marker (`-`, `*`, `+`, `1.`, `1)`), and whether it had one.
fn unmarked(line: &str) -> (&str, bool) {
    let line = line.trim();
    let number = line.bytes().take_while(u8::is_ascii_digit).count();
    let marker = match line.as_bytes().get(number) {
        Some(b'.' | b')') if number > 0 => number + 1,
        Some(b'-' | b'*' | b'+') if number == 0 => 1,
        _ => return (line, false),
    };
    let Some(rest) = line.get(marker..) else { return (line, false) };
    // A marker without a space is part of a word, as in `*.rs` or `-v`.
    if rest.is_empty() || rest.starts_with([' ', '\t']) {
        (rest.trim(), true)
    } else {
        (line, false)
    }
}

/// The globs of one item of `Boundaries:`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boundary {
    /// The task may write only these.
    pub only: Vec<String>,
    /// The task may write none of these.
    pub never: Vec<String>,
}

/// How the host reads one item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Enforced(Boundary),
    /// The item names no path; the model gets it as text.
    ForTheModel,
    /// The item names this path, but not in a form that is enforced.
    Unclear {
        path: String,
    },
}

/// Returns where a path that the user names is, from the root, or `None` when nothing has that name.
type Find<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Phrases in front of paths that are allowed.
const ALLOW: [&str; 7] =
    ["only", "just", "only in", "stay in", "work in", "only change", "change only"];
/// Phrases in front of paths that are forbidden, up to the end of the item.
const FORBID: [&str; 12] = [
    "!",
    "not",
    "never",
    "except",
    "excluding",
    "but not",
    "but never",
    "everything except",
    "everything but",
    "all except",
    "all but",
    "leave",
];
/// `do not touch`, `never change`: each beginning with each verb forbids, too.
const FORBID_BEGINNINGS: [&str; 4] = ["do not", "don't", "dont", "never"];
const FORBID_VERBS: [&str; 5] = ["touch", "change", "edit", "modify", "write"];
/// Phrases behind paths that are forbidden.
const ALONE: [&str; 3] = ["alone", "untouched", "unchanged"];
/// Phrases behind paths that are allowed.
const NOTHING_ELSE: [&str; 2] = ["only", "nothing else"];

pub(super) fn read(item: &str, find: Find<'_>) -> Reading {
    let words = words(item);
    if let Some(boundary) = boundary(&words, find) {
        return Reading::Enforced(boundary);
    }
    match words.iter().find_map(|word| word.path_in_sentence(find)) {
        Some(path) => Reading::Unclear { path },
        None => Reading::ForTheModel,
    }
}

fn boundary(words: &[Word], find: Find<'_>) -> Option<Boundary> {
    let paths: Vec<_> = words.iter().map(|word| word.path(find, words.len() == 1)).collect();
    let is_list = is_list(words) && paths.iter().any(Option::is_some);
    let mut boundary = Boundary::default();
    let (mut forbids, mut expects_path, mut at) = (false, false, 0);
    if !matches!(paths.as_slice(), [Some(_)]) {
        at = phrase(words, &ALLOW).unwrap_or(0);
    }
    while at < words.len() {
        let rest = &words[at..];
        if words.len() > 1
            && let Some(length) = forbidding(rest)
        {
            if expects_path {
                return None;
            }
            (forbids, expects_path, at) = (true, true, at + length);
            continue;
        }
        let ends = if forbids { &ALONE[..] } else { &NOTHING_ELSE[..] };
        if words.len() > 1
            && !expects_path
            && let Some(length) = phrase(rest, ends)
        {
            at += length;
            continue;
        }
        match &paths[at] {
            Some(path) if path.negated || forbids => boundary.never.push(path.glob.clone()),
            Some(path) => boundary.only.push(path.exact.clone().unwrap_or(path.glob.clone())),
            None if is_list && is_name(&words[at].text) && !words[at].is_keyword() => {
                let list = if forbids { &mut boundary.never } else { &mut boundary.only };
                list.push(globset::escape(&words[at].text));
            }
            None => return None,
        }
        (expects_path, at) = (false, at + 1);
    }
    (!expects_path && boundary != Boundary::default()).then_some(boundary)
}

/// The number of words in the longest of these phrases with which `words` begins.
fn phrase(words: &[Word], phrases: &[&str]) -> Option<usize> {
    let fits = |phrase: &&str| {
        let parts: Vec<_> = phrase.split(' ').collect();
        let fits = parts.len() <= words.len()
            && parts.iter().zip(words).all(|(part, word)| word.is_word(part));
        fits.then_some(parts.len())
    };
    phrases.iter().filter_map(fits).max()
}

fn forbidding(words: &[Word]) -> Option<usize> {
    let with_verb = phrase(words, &FORBID_BEGINNINGS).and_then(|length| {
        let verb = phrase(words.get(length..)?, &FORBID_VERBS)?;
        Some(length + verb)
    });
    with_verb.or_else(|| phrase(words, &FORBID))
}

struct NamedPath {
    glob: String,
    /// The glob of the file or directory that exists under this name, and of nothing of that name elsewhere. A
    /// prohibition covers the name everywhere.
    exact: Option<String>,
    /// Written with `!`.
    negated: bool,
}

/// Returns whether separators divide all words that are not keywords. In such a list a plain name is a path too.
fn is_list(words: &[Word]) -> bool {
    let mut after_name = false;
    words.iter().all(|word| {
        after_name &= !word.separated;
        let is_name = !word.is_keyword();
        let fits = !(is_name && after_name);
        after_name |= is_name;
        fits
    })
}

struct Word {
    /// Without quotes, and without punctuation at its end.
    text: String,
    quoted: bool,
    /// A comma, a semicolon, `and` or `or` precedes the word.
    separated: bool,
}

impl Word {
    fn is_word(&self, text: &str) -> bool {
        !self.quoted && self.text.to_lowercase().replace('’', "'") == text
    }

    /// Returns whether the word belongs to a phrase, so that it is a path only where it is quoted or alone.
    fn is_keyword(&self) -> bool {
        let phrases = ALLOW.iter().chain(&FORBID).chain(&FORBID_BEGINNINGS).chain(&FORBID_VERBS);
        let mut all = phrases.chain(&ALONE).chain(&NOTHING_ELSE).flat_map(|one| one.split(' '));
        all.any(|part| self.is_word(part))
    }

    /// The path that a word names between paths and phrases.
    fn path(&self, find: Find<'_>, alone: bool) -> Option<NamedPath> {
        let (path, negated) = match self.text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (self.text.as_str(), false),
        };
        let path = path.strip_prefix("./").unwrap_or(path);
        let bare = path.trim_matches('/');
        let dots = |part: &str| part.chars().all(|c| c == '.');
        if bare.is_empty() || bare.split('/').all(dots) || path.split('/').any(|part| part == "..")
        {
            return None;
        }
        let path_as = |glob: &str, exact| NamedPath { glob: glob.to_owned(), exact, negated };
        // The name of an existing file is no glob, whatever characters it contains.
        if (alone || negated || !self.is_keyword())
            && let Some(found) = find(bare)
        {
            let exact = format!("/{}", globset::escape(&found));
            return Some(path_as(&globset::escape(path), Some(exact)));
        }
        if path.contains(char::is_whitespace) || path.contains('`') {
            return None;
        }
        let looks_like_one = path.contains(['/', '*']) || bare.contains('.');
        (self.quoted || negated || looks_like_one).then(|| path_as(path, None))
    }

    /// The path that a word names in a sentence, where `input/output` and `Node.js` are plain words.
    fn path_in_sentence(&self, find: Find<'_>) -> Option<String> {
        let text = self.text.trim_matches(['`', '"', '\'', '(', ')']);
        let path = text.trim_start_matches('!').trim_start_matches("./");
        let bare = path.trim_matches('/');
        if bare.is_empty() || bare.chars().all(|c| c == '.') {
            return None;
        }
        let first = bare.split('/').next().unwrap_or_default();
        let quoted = self.quoted && !path.contains(' ') && path.contains(['/', '.']);
        let names_one = (!self.is_keyword() && find(bare).is_some())
            || path.contains('*')
            || path.ends_with('/')
            || path.split('/').any(|part| part == "..")
            || (bare.contains('/') && find(first).is_some())
            || (text.starts_with('!') && is_name(path))
            || quoted;
        // A quotation of several words may contain a path.
        let inside = || text.split_whitespace().nth(1).and_then(|_| in_words(text, find));
        if names_one { Some(path.to_owned()) } else { inside() }
    }
}

fn in_words(text: &str, find: Find<'_>) -> Option<String> {
    let words = text.split_whitespace().map(|word| Word {
        text: word.to_owned(),
        quoted: false,
        separated: false,
    });
    words.into_iter().find_map(|word| word.path_in_sentence(find))
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
}

/// Splits at blanks, commas and semicolons, but not in quotes or braces (`{a,b}`).
fn words(item: &str) -> Vec<Word> {
    let mut words: Vec<Word> = vec![];
    let (mut text, mut quote, mut depth, mut separated) = (String::new(), None, 0_u32, false);
    for c in item.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '`' | '"' | '\'') if text.is_empty() => quote = Some(c),
            (None, ' ' | '\t' | ',' | ';') if depth == 0 || c == ' ' => {
                add(&mut words, std::mem::take(&mut text), &mut separated);
                (depth, separated) = (0, separated || matches!(c, ',' | ';'));
                continue;
            }
            _ => {}
        }
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        text.push(c);
    }
    // The text behind a quotation mark without a partner is ordinary words.
    for word in text.split_whitespace() {
        add(&mut words, word.to_owned(), &mut separated);
    }
    words
}

fn add(words: &mut Vec<Word>, text: String, separated: &mut bool) {
    let marked = text.trim_end_matches(['.', ':', '?', ',']);
    let marked = if marked.is_empty() { text.as_str() } else { marked };
    let within = |mark: &str| {
        let inner = marked.strip_prefix(mark)?.strip_suffix(mark)?;
        // `**/x/**` is a glob, `**x**` is emphasis.
        (!inner.is_empty() && !inner.starts_with('/')).then_some(inner)
    };
    let quoted = ["`", "\"", "'"].into_iter().find_map(within);
    let bare = quoted.or_else(|| within("**")).unwrap_or(marked);
    match bare {
        "" => return,
        "and" | "or" | "and/or" if quoted.is_none() => return *separated = true,
        _ => {}
    }
    words.push(Word {
        text: bare.to_owned(),
        quoted: quoted.is_some(),
        separated: std::mem::take(separated),
    });
}

#[cfg(test)]
mod tests {
    mod request {
        use super::super::*;
        use proptest::prelude::*;

        const TEXT: &str = "\
    Make the parser accept dates.

    constraints:
    - keep the public API
      as it is
    * no new dependency
    NON-GOALS:
    1. speed
    2) Windows

    Boundaries:
    - src/parse/
    - `docs`
    - *.toml
    - leave src/old alone
    ";

        #[test]
        fn sections_are_found_in_any_case_and_items_in_any_marker() {
            // TASK-2, TASK-3
            let request = TaskRequest::parse(TEXT).unwrap();
            assert_eq!(
                request.constraints(),
                ["keep the public API as it is", "no new dependency"]
            );
            assert_eq!(request.non_goals(), ["speed", "Windows"]);
            assert_eq!(
                request.boundaries(),
                ["src/parse/", "`docs`", "*.toml", "leave src/old alone"]
            );
            assert_eq!(request.text(), TEXT.trim());
        }

        #[test]
        fn boundaries_that_are_paths_are_enforced() {
            // TASK-5
            let request = TaskRequest::parse(TEXT).unwrap();
            let only = |path: &str| Boundary { only: vec![path.to_owned()], ..Boundary::default() };
            let never = Boundary { never: vec!["src/old".to_owned()], ..Boundary::default() };
            let expected = [
                ("src/parse/", only("src/parse/")),
                ("`docs`", only("docs")),
                ("*.toml", only("*.toml")),
                ("leave src/old alone", never),
            ];
            let find = |name: &str| (name == "src").then(|| name.to_owned());
            assert_eq!(request.enforced(find).unwrap(), expected);
        }

        #[test]
        fn a_boundary_that_names_a_path_in_other_words_is_refused_with_the_spelling_that_counts() {
            // TASK-5
            for item in ["- src/**\nis off limits", "- keep src/** as it is"] {
                let request = TaskRequest::parse(&format!("do\nBoundaries:\n{item}")).unwrap();
                let failure = Failure::from(request.enforced(|_| None).unwrap_err());
                assert_eq!((failure.code, failure.exit as u8), ("boundary_unclear", 1));
                let hint = failure.hint.unwrap();
                assert!(hint.contains("`src/**`") && hint.contains("`!src/**`"), "{hint}");
            }
            let request =
                TaskRequest::parse("do\nBoundaries:\n- do not touch\n  docs/\n- be quick").unwrap();
            let never = Boundary { never: vec!["docs/".to_owned()], ..Boundary::default() };
            assert_eq!(request.enforced(|_| None).unwrap(), [("do not touch docs/", never)]);
        }

        #[test]
        fn text_after_a_list_belongs_to_the_task() {
            // TASK-4
            let list = "Boundaries:\n- src/\n- docs/\n\nMake the parser faster.\n";
            let request = TaskRequest::parse(list).unwrap();
            assert_eq!(request.boundaries(), ["src/", "docs/"]);
            for (text, items) in [
                ("do\nBoundaries:\n- src/\n\n  docs/\n", vec!["src/", "docs/"]),
                ("do\nBoundaries:\n- src/\n\n- docs/\n", vec!["src/", "docs/"]),
                ("do\nBoundaries:\nsrc/\n\ndocs/\n", vec!["src/", "docs/"]),
            ] {
                assert_eq!(TaskRequest::parse(text).unwrap().boundaries(), items, "{text}");
            }
        }

        #[test]
        fn lines_without_marker_are_not_lost() {
            // TASK-4
            let request = TaskRequest::parse(
                "do it\nConstraints:\nno new files\n\nno threads\n- a\n\nb\n-v stays",
            )
            .unwrap();
            assert_eq!(request.constraints(), ["no new files", "no threads", "a", "b -v stays"]);
        }

        #[test]
        fn a_section_named_twice_goes_on() {
            let request =
                TaskRequest::parse("do\nConstraints:\n- a\nNon-goals:\n- b\nConstraints:\n- c")
                    .unwrap();
            assert_eq!(request.constraints(), ["a", "c"]);
            assert_eq!(request.non_goals(), ["b"]);
        }

        #[test]
        fn a_word_in_a_sentence_opens_no_section() {
            let request = TaskRequest::parse("Constraints: none\nthe Boundaries: of it").unwrap();
            assert!(request.constraints().is_empty() && request.boundaries().is_empty());
        }

        #[test]
        fn a_text_that_asks_for_nothing_is_refused() {
            // TASK-6
            for text in ["", " \n\t", "Constraints:\n- keep quiet\n"] {
                assert_eq!(TaskRequest::parse(text), Err(RequestError::Empty), "{text:?}");
            }
            let failure = Failure::from(RequestError::Empty);
            assert_eq!((failure.code, failure.message.as_str()), ("task_empty", "task is empty"));
            assert!(failure.hint.is_some());
        }

        #[test]
        fn a_text_beyond_the_bound_is_refused() {
            // TASK-7
            assert!(TaskRequest::parse(&"x".repeat(MAX_TEXT_BYTES)).is_ok());
            let bytes = MAX_TEXT_BYTES + 1;
            assert_eq!(
                TaskRequest::parse(&"x".repeat(bytes)),
                Err(RequestError::TooLarge { bytes })
            );
        }

        proptest! {
            #[test]
            fn every_word_of_a_section_is_kept(lines in prop::collection::vec("[-*+ 1.)a-c]{0,8}", 0..8)) {
                let text = format!("task\nConstraints:\n{}", lines.join("\n"));
                let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).collect::<String>();
                let request = TaskRequest::parse(&text).unwrap();
                let (items, all) = (letters(&request.constraints().concat()), letters(&lines.concat()));
                // What follows the list, behind a blank line, is text of the task.
                let after_blank = lines.iter().skip_while(|line| !line.trim().is_empty());
                prop_assert!(all.starts_with(&items), "{items}");
                prop_assert!(items.len() + letters(&after_blank.map(String::as_str).collect::<String>()).len() >= all.len());
            }
        }
    }

    mod boundary {
        use super::super::*;
        fn there(name: &str) -> Option<String> {
            let there =
                ["src", "docs", "Makefile", "a[1]", "My Dir", "only", "src/old", "app", "."];
            match name {
                "inner" => Some("packages/core/inner".to_owned()),
                name => there.contains(&name).then(|| name.to_owned()),
            }
        }

        /// `/src !docs`: the paths that are allowed and those that are forbidden; `-` for the model, `?` where unclear.
        fn reading(item: &str) -> String {
            match read(item, &there) {
                Reading::Enforced(boundary) => {
                    let never = boundary.never.iter().map(|path| format!("!{path}"));
                    boundary.only.iter().cloned().chain(never).collect::<Vec<_>>().join(" ")
                }
                Reading::ForTheModel => "-".to_owned(),
                Reading::Unclear { .. } => "?".to_owned(),
            }
        }

        // TASK-5
        #[test]
        fn lists_of_paths_are_enforced() {
            for (item, paths) in [
                // A name that exists means that very file, in the package where there is one.
                ("inner", "/packages/core/inner"),
                ("./a.rs", "a.rs"),
                ("src", "/src"),
                ("src/", "/src"),
                ("Makefile", "/Makefile"),
                ("only", "/only"),
                ("a[1]", "/a[[]1[]]"),
                ("src/{a,b}/*.rs", "src/{a,b}/*.rs"),
                ("`newdir`", "newdir"),
                ("newdir/", "newdir/"),
                ("src/new/x.rs", "src/new/x.rs"),
                ("\"My Dir\"", "/My Dir"),
                ("**src/**", "/src"),
                ("**/src/**", "**/src/**"),
                // In a list, a name beside a path is a path.
                ("src/, docs/", "/src /docs"),
                ("src, tests", "/src tests"),
                ("tests, src", "tests /src"),
                ("Makefile, src,`lib`", "/Makefile /src lib"),
                ("src/ and docs/", "/src /docs"),
                ("src/; docs/", "/src /docs"),
                ("src, lib and tests", "/src lib tests"),
                ("only src, tests", "/src tests"),
                ("a.rs, b.rs", "a.rs b.rs"),
                // Phrases that say the same.
                ("only src/", "/src"),
                ("src only", "/src"),
                ("`src/` only", "/src"),
                ("stay in src/", "/src"),
                ("src/, and nothing else", "/src"),
                ("src/.", "/src"),
            ] {
                assert_eq!(reading(item), paths, "{item}");
            }
        }

        // TASK-5
        #[test]
        fn a_prohibition_forbids() {
            for (item, paths) in [
                ("!docs/", "!docs/"),
                ("! docs/", "!docs/"),
                ("!newdir", "!newdir"),
                ("not docs/", "!docs/"),
                ("never docs, src/old", "!docs !src/old"),
                ("never docs/, tests", "!docs/ !tests"),
                ("do not touch docs/", "!docs/"),
                ("Don’t change `docs`", "!docs"),
                ("never edit docs/ or src/old", "!docs/ !src/old"),
                ("leave src/old alone", "!src/old"),
                ("everything except docs/", "!docs/"),
                ("all but docs/", "!docs/"),
                ("src/ but not src/old", "/src !src/old"),
                ("src/, !src/old", "/src !src/old"),
                ("only src/, never docs/", "/src !docs/"),
            ] {
                assert_eq!(reading(item), paths, "{item}");
            }
        }

        // TASK-5
        #[test]
        fn a_sentence_with_a_path_is_unclear() {
            for item in [
                "../elsewhere",
                "`not src/a`",
                "src performance",
                "no change of behaviour in src/",
                "don't change anything in `docs/`",
                "nothing outside src/",
                "keep src/ as it is",
                "docs/ must not be changed",
                "docs/ stays untouched",
                "not only src/",
                "not src/ but docs/",
                "in docs/ nothing",
                "src/ (but not src/old)",
                "src/ (the parser)",
                "src/ is fine, docs/ is not",
                "only `src",
                "only the src directory",
                "performance of src/",
                "never docs/, only src/",
                "src/** is off limits",
            ] {
                assert_eq!(reading(item), "?", "{item}");
            }
        }

        // TASK-5
        #[test]
        fn a_sentence_without_a_path_is_for_the_model() {
            for item in [
                "",
                "newdir",
                "performance",
                "nothing.",
                ".",
                "..",
                "/",
                "My Dir",
                "Node.js code only",
                "keep input/output fast",
                "keep `add` pure",
            ] {
                assert_eq!(reading(item), "-", "{item}");
            }
        }
    }
}
