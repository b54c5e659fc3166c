//! What the text of a command or a script says about files: its words, those that may be paths, and what a program
//! reads without being told. Nothing is understood; a word too many costs a look.

/// Directories that may be dropped from the front of a path whose beginning is a variable.
const MAX_DROPPED: usize = 4;

/// What may be part of a path, and whether the word goes on where a variable ended. The words are in their order.
pub(super) fn words(text: &str) -> Vec<(bool, &str)> {
    let part = |c: char| c.is_alphanumeric() || "._-/+@*?".contains(c);
    let mut words = vec![];
    let mut rest = text;
    let mut before = ' ';
    while let Some(start) = rest.find(part) {
        if let Some(c) = rest[..start].chars().next_back() {
            before = c;
        }
        let word = &rest[start..];
        let end = word.find(|c| !part(c)).unwrap_or(word.len());
        words.push((matches!(before, '$' | '}' | ')'), &word[..end]));
        rest = &word[end..];
        before = ' ';
    }
    words
}

/// The path, and where its beginning is not known or not here, what is left of it without that.
pub(super) fn ends(word: &str, after_variable: bool) -> Vec<&str> {
    let mut ends = vec![word];
    if word.starts_with('/') || after_variable {
        let mut rest = word.trim_start_matches('/');
        ends.push(rest);
        for _ in 0..MAX_DROPPED {
            let Some((_, tail)) = rest.split_once('/') else { break };
            ends.push(tail);
            rest = tail;
        }
    }
    ends
}

/// Files that a program reads where it is started, without being told.
pub(super) fn unasked(program: &str) -> &'static [&'static str] {
    match program.rsplit('/').next().unwrap_or_default() {
        "make" | "gmake" => &["Makefile", "makefile", "GNUmakefile"],
        "npm" | "npx" | "pnpm" | "yarn" | "bun" => &["package.json"],
        "just" => &["justfile", "Justfile", ".justfile"],
        _ => &[],
    }
}

/// What takes the next word for a file.
pub(super) const RUNNERS: [&str; 12] = [
    ".", "source", "sh", "bash", "dash", "zsh", "ksh", "python", "python3", "ruby", "perl",
    "include",
];

/// Text that runs other things: of a shell, of `make` and its like, of a scripting language. The modules of a program
/// name each other as well, but are what is tested.
pub(super) fn is_script(path: &str, text: &str) -> bool {
    const ENDS: [&str; 11] =
        ["sh", "bash", "zsh", "ksh", "bats", "mk", "mak", "just", "py", "rb", "pl"];
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let ending =
        name.rsplit_once('.').map(|(stem, ending)| if stem.is_empty() { "" } else { ending });
    text.starts_with("#!")
        || name == "package.json"
        || ending.is_none_or(|ending| ending.is_empty() || ENDS.contains(&ending))
}

/// Of `package.json` its scripts alone; the rest names what is built.
pub(super) fn commands_of(path: &str, text: &str) -> String {
    if path.rsplit('/').next() != Some("package.json") {
        return text.to_owned();
    }
    let read: Result<serde_json::Value, _> = serde_json::from_str(text);
    let scripts = read.ok().and_then(|read| read.get("scripts")?.as_object().cloned());
    let Some(scripts) = scripts else { return text.to_owned() };
    scripts.values().filter_map(|value| value.as_str()).collect::<Vec<_>>().join("\n")
}
