//! What an item of `Boundaries:` says in a way that can be enforced: paths to stay in and paths to leave alone.
//! Pure.
//!
//! An item counts only when every word of it is understood: a path, a word that adds nothing, or a negation in
//! front of paths. Anything else is for the model alone, and the user is told so.

/// Globs that are held to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Nothing else is written.
    pub only: Vec<String>,
    /// Nothing of it is written.
    pub never: Vec<String>,
}

/// Where something is that a user calls by a path: from the root. None where nothing is.
type Find<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn held(item: &str, find: Find<'_>) -> Option<Held> {
    let words = words(without_remark(item.trim(), find));
    let alone = words.iter().skip(1).all(|word| word.apart);
    let is_list = is_list(&words);
    let has_path = words.iter().any(|word| word.path(find, false).is_some());
    let mut held = Held::default();
    let (mut never, mut waits, mut before) = (false, false, "");
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if text == "nothing" && words.next_if(|next| next.text == "else").is_some() {
            continue;
        }
        match (word.path(find, alone), word.meaning()) {
            (Some(path), _) if path.negated || never => held.never.push(path.glob),
            (Some(path), _) => held.only.push(path.stands.unwrap_or(path.glob)),
            (None, Meaning::Filling) => {}
            (None, Meaning::Only) if !never => {}
            (None, Meaning::Alone) if never => {}
            (None, Meaning::Not) if !never || before == "but" => (never, waits) = (true, true),
            (None, Meaning::Other) if is_list && has_path && is_name(text) => {
                let list = if never { &mut held.never } else { &mut held.only };
                list.push(globset::escape(text));
            }
            _ => return None,
        }
        waits &= held.never.is_empty();
        before = text;
    }
    (!waits && held != Held::default()).then_some(held)
}

struct NamedPath {
    glob: String,
    /// The glob of the very thing that is there, and of nothing of that name elsewhere. To be left alone is more.
    stands: Option<String>,
    /// Said with `!`.
    negated: bool,
}

/// Names with a comma or the like between each and the next: once one of them is a path, all are.
fn is_list(words: &[Word]) -> bool {
    let mut after_name = false;
    words.iter().all(|word| {
        after_name &= !word.apart;
        let is_name = word.meaning() == Meaning::Other;
        let separate = !(is_name && after_name);
        after_name |= is_name;
        separate
    })
}

/// What a word does to the paths around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Filling,
    Only,
    /// What follows is not to be written.
    Not,
    /// Ends what a negation began: `leave docs alone`.
    Alone,
    Other,
}

struct Word {
    /// Without quotes and without punctuation at its end.
    text: String,
    quoted: bool,
    /// A comma, a semicolon, `and` or `or` stands before it.
    apart: bool,
}

impl Word {
    fn meaning(&self) -> Meaning {
        const FILLING: [&str; 37] = [
            "all",
            "any",
            "anything",
            "at",
            "be",
            "change",
            "changed",
            "changes",
            "code",
            "do",
            "edit",
            "edited",
            "edits",
            "everything",
            "file",
            "files",
            "folder",
            "folders",
            "directory",
            "directories",
            "in",
            "inside",
            "may",
            "modify",
            "modified",
            "of",
            "please",
            "stay",
            "the",
            "to",
            "touch",
            "touched",
            "under",
            "below",
            "within",
            "work",
            "write",
        ];
        const NOT: [&str; 11] = [
            "!",
            "not",
            "no",
            "never",
            "dont",
            "except",
            "excluding",
            "without",
            "but",
            "nothing",
            "leave",
        ];
        match self.text.to_lowercase().replace(['\'', '’'], "").as_str() {
            _ if self.quoted => Meaning::Other,
            "only" | "just" => Meaning::Only,
            "alone" | "untouched" | "unchanged" => Meaning::Alone,
            word if FILLING.contains(&word) => Meaning::Filling,
            word if NOT.contains(&word) => Meaning::Not,
            _ => Meaning::Other,
        }
    }

    /// The path that it is. Alone or in a list a word is a path by less than in a sentence,
    /// where `Node.js` and `input/output` are words.
    fn path(&self, find: Find<'_>, alone: bool) -> Option<NamedPath> {
        let (path, negated) = match self.text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (self.text.as_str(), false),
        };
        let path = path.strip_prefix("./").unwrap_or(path);
        let bare = path.trim_matches('/');
        if bare.is_empty() || bare.split('/').all(|part| part.chars().all(|c| c == '.')) {
            return None;
        }
        if path.split('/').any(|part| part == "..") {
            return None;
        }
        let path_as = |glob: &str, stands| NamedPath { glob: glob.to_owned(), stands, negated };
        // What is there is meant as it is written, whatever a glob would make of it.
        if (alone || negated || self.meaning() == Meaning::Other)
            && let Some(found) = find(bare)
        {
            return Some(path_as(
                &globset::escape(path),
                Some(format!("/{}", globset::escape(&found))),
            ));
        }
        if path.contains(char::is_whitespace) || path.contains('`') {
            return None;
        }
        let first = bare.split('/').next().unwrap_or_default();
        let in_known = bare.contains('/') && find(first).is_some();
        let sure = path.contains('*') || path.ends_with('/') || in_known;
        let likely = path.contains('/') || bare.contains('.');
        (self.quoted || negated || sure || (alone && likely)).then(|| path_as(path, None))
    }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
}

/// A remark in parentheses at the end says nothing, unless it is about other paths.
fn without_remark<'a>(item: &'a str, find: Find<'_>) -> &'a str {
    let remark = item.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    match remark {
        Some((said, remark))
            if words(remark)
                .iter()
                .all(|word| word.path(find, false).is_none() && word.meaning() != Meaning::Not) =>
        {
            said
        }
        _ => item,
    }
}

/// Split at blanks, commas and semicolons, but not in quotes or braces (`{a,b}`).
fn words(item: &str) -> Vec<Word> {
    let mut words: Vec<Word> = vec![];
    let (mut text, mut quote, mut depth, mut apart) = (String::new(), None, 0_u32, false);
    for c in item.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '`' | '"' | '\'') if text.is_empty() => quote = Some(c),
            (None, ' ' | '\t' | ',' | ';') if depth == 0 || c == ' ' => {
                add(&mut words, std::mem::take(&mut text), &mut apart);
                (depth, apart) = (0, apart || matches!(c, ',' | ';'));
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
    // A quotation that never ends is none.
    for word in text.split_whitespace() {
        add(&mut words, word.to_owned(), &mut apart);
    }
    words
}

fn add(words: &mut Vec<Word>, text: String, apart: &mut bool) {
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
        "and" | "or" | "and/or" if quoted.is_none() => return *apart = true,
        _ => {}
    }
    words.push(Word {
        text: bare.to_owned(),
        quoted: quoted.is_some(),
        apart: std::mem::take(apart),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/src !docs`: what is written alone, and what never is.
    fn of(item: &str) -> String {
        let there = ["src", "docs", "Makefile", "a[1]", "My Dir", "only", "src/old", "app", "."];
        let find = |name: &str| match name {
            "inner" => Some("packages/core/inner".to_owned()),
            name => there.contains(&name).then(|| name.to_owned()),
        };
        let Some(held) = held(item, &find) else { return "-".to_owned() };
        let never = held.never.iter().map(|path| format!("!{path}"));
        held.only.iter().cloned().chain(never).collect::<Vec<_>>().join(" ")
    }

    // TASK-5
    #[test]
    fn paths_in_the_words_of_users_are_held_to() {
        for (item, paths) in [
            // What is there is that very thing, in the package where there is one.
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
            ("My Dir", "-"),
            ("**src/**", "/src"),
            ("**/src/**", "**/src/**"),
            // Lists: what stands beside a path is one.
            ("src/, docs/", "/src /docs"),
            ("src, tests", "/src tests"),
            ("tests, src", "tests /src"),
            ("Makefile, src,`lib`", "/Makefile /src lib"),
            ("src/ and docs/", "/src /docs"),
            ("src/; docs/", "/src /docs"),
            ("src, lib and tests", "/src lib tests"),
            ("only src, tests", "/src tests"),
            ("a.rs, b.rs", "a.rs b.rs"),
            // Words that add nothing.
            ("only src/", "/src"),
            ("src only", "/src"),
            ("`src/` only", "/src"),
            ("only the src directory", "/src"),
            ("stay in src/", "/src"),
            ("src/ (the parser)", "/src"),
            ("src/, and nothing else", "/src"),
            ("src/.", "/src"),
        ] {
            assert_eq!(of(item), paths, "{item}");
        }
    }

    // TASK-5
    #[test]
    fn what_is_to_be_left_alone_is_not_what_is_to_be_changed() {
        for (item, paths) in [
            ("!docs/", "!docs/"),
            ("! docs/", "!docs/"),
            ("!newdir", "!newdir"),
            ("not docs/", "!docs/"),
            ("never docs, src/old", "!docs !src/old"),
            ("never docs/, tests", "!docs/ !tests"),
            ("do not touch docs/", "!docs/"),
            ("don't change anything in `docs`", "!docs"),
            ("leave src/old alone", "!src/old"),
            ("everything except docs/", "!docs/"),
            ("all but docs/", "!docs/"),
            ("src/ but not src/old", "/src !src/old"),
            ("src/, !src/old", "/src !src/old"),
            ("only src/, never docs/", "/src !docs/"),
        ] {
            assert_eq!(of(item), paths, "{item}");
        }
    }

    // TASK-5
    #[test]
    fn what_is_not_understood_is_not_enforced() {
        for item in [
            "",
            "newdir",
            "performance",
            "nothing.",
            ".",
            "..",
            "../elsewhere",
            "/",
            "`not src/a`",
            "src performance",
            "no change of behaviour in src/",
            "nothing outside src/",
            "keep src/ as it is",
            "docs/ must not be changed",
            "docs/ stays untouched",
            "not only src/",
            "not src/ but docs/",
            "in docs/ nothing",
            "src/ (but not src/old)",
            "Node.js code only",
            "keep input/output fast",
            "src/ is fine, docs/ is not",
            "only `src",
            "performance of src/",
        ] {
            assert_eq!(of(item), "-", "{item}");
        }
    }
}
