//! Parsing one file, bounded in size, work and time, and the walk over its syntax tree.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

use super::rules::{Inside, Rules};
use super::scope::OutlineBuilder;
use super::{Language, Outline};

/// Maximum number of bytes of a source file that is parsed. Larger files are generated.
pub const MAX_SOURCE: usize = 1 << 20;
/// The work that parsing a file may take, in hundreds of the parser's steps: a base, and one more for each
/// `BYTES_PER_WORK` bytes. Ordinary code takes half of it. Steps are counted because every machine then gives up at the
/// same files. Memory grows with the work too: ambiguous source takes about 300 bytes a step.
const BASE_WORK: usize = 1_000;
const BYTES_PER_WORK: usize = 100;
/// Number of bytes that the parser gets at a time. Each piece counts like a hundred steps.
const PIECE: usize = 4 << 10;
/// Maximum processor time of the thread, for work that the count does not cover.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Number of nodes between two checks whether the result is still wanted.
const NODES_BETWEEN_CHECKS: usize = 4_096;
/// Maximum depth of the tree that is searched. Code that people write nests less.
const MAX_DEPTH: usize = 2_000;

/// An outline, and whether another attempt would return the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub outline: Outline,
    /// False when time ran out.
    pub lasting: bool,
}

/// Returns the outline of a file, or `None` once `stopped` returns true. Only the name of the file in `path` counts,
/// because some languages recognise tests by it.
pub fn outline(
    language: Language,
    path: &str,
    source: &[u8],
    stopped: &dyn Fn() -> bool,
) -> Option<Parsed> {
    let started = worked();
    let late = || worked().saturating_sub(started) > MAX_TIME;
    let all = lines(source);
    let whole_text = in_utf8(source);
    let (source, lossy) = (&*whole_text, matches!(whole_text, Cow::Owned(_)));
    let mut builder = OutlineBuilder::new(path, source, lossy);
    let (mut complete, mut lasting) = (false, true);
    match parse(language, source, &|| stopped() || late()) {
        Some(tree) => {
            let whole = walk(&tree, &mut Rules::new(language), &mut builder, stopped)?;
            complete = whole && !tree.root_node().has_error() && !builder.is_cut();
        }
        None if stopped() => return None,
        None => lasting = !late(),
    }
    let (symbols, imports) = builder.into_parts();
    Some(Parsed { outline: Outline { language, lines: all, symbols, imports, complete }, lasting })
}

/// Returns the processor time of the thread.
pub(super) fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the source as UTF-8. In a file that is not, each byte beyond ASCII becomes a letter, so that the source
/// around it parses as before. Names with such letters are left out of the outline.
fn in_utf8(source: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(source).is_ok() {
        return Cow::Borrowed(source);
    }
    let mut text = String::with_capacity(source.len() + source.len() / 8);
    text.extend(source.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { 'é' }));
    Cow::Owned(text.into_bytes())
}

fn parse(language: Language, source: &[u8], stopped: &dyn Fn() -> bool) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&language.grammar()).ok()?;
    let mut work = BASE_WORK + source.len() / BYTES_PER_WORK;
    let (reads, mut looks) = (Cell::new(0), 0_usize);
    let mut go_on = |_: &ParseState| {
        work = work.saturating_sub(1 + reads.take());
        looks += 1;
        if work == 0 || (looks.is_multiple_of(16) && stopped()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut go_on);
    // The source is read in pieces, so that repeated lookahead to the end of the file is counted.
    let mut read = |at: usize, _| {
        reads.set(reads.get() + 1);
        let rest = source.get(at..).unwrap_or_default();
        rest.get(..PIECE).unwrap_or(rest)
    };
    parser.parse_with_options(&mut read, None, Some(options))
}

/// Visits the nodes without recursion. Returns false when some were too deep, and `None` once `stopped` returns true.
fn walk(
    tree: &Tree,
    rules: &mut Rules,
    builder: &mut OutlineBuilder<'_>,
    stopped: &dyn Fn() -> bool,
) -> Option<bool> {
    let mut cursor = tree.walk();
    let (mut depth, mut nodes, mut whole) = (0, 0_usize, true);
    loop {
        nodes += 1;
        if nodes.is_multiple_of(NODES_BETWEEN_CHECKS) && stopped() {
            return None;
        }
        builder.leave(depth);
        let node = cursor.node();
        let inside = match node.is_named() {
            true => rules.visit(node, builder),
            false => Inside::Nothing,
        };
        whole &= depth < MAX_DEPTH;
        if depth < MAX_DEPTH && builder.enter(depth, inside) && cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                rules.end(builder);
                return Some(whole);
            }
            depth -= 1;
        }
    }
}

/// Counts the lines. The last one need not end in a newline.
fn lines(source: &[u8]) -> u32 {
    let feeds = source.iter().filter(|byte| **byte == b'\n').count();
    let open = source.last().is_some_and(|last| *last != b'\n');
    u32::try_from(feeds + usize::from(open)).unwrap_or(u32::MAX)
}
