//! One file through its parser, bounded in size, work and time, and the walk over what came out.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

use super::rules::{Inside, Rules};
use super::scope::Found;
use super::{Language, Outline};

/// Bytes of a source file that is parsed; larger ones are made by machines.
pub const MAX_SOURCE: usize = 1 << 20;
/// What parsing may cost, in hundreds of the parser's own steps: so many for a small file, and one more for so many
/// bytes. Ordinary code takes half of it; counted and not timed, so that every machine gives up at the same files.
/// Memory grows with it too: what is read in many ways at once takes about 300 bytes for a step.
const WORK: usize = 1_000;
const BYTES_FOR_WORK: usize = 100;
/// Bytes that the parser is given at a time; each piece counts like a hundred steps.
const PIECE: usize = 4 << 10;
/// Of the thread's own work, for what the count does not see. Waiting, and other programs, do not count.
const TIME: Duration = Duration::from_secs(10);
/// Nodes that are walked between two looks at whether anybody still waits.
const NODES: usize = 4_096;
/// Deeper than this nothing is looked for: no person nests so deep.
const DEPTH: usize = 2_000;

/// An outline and whether another try would give the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub outline: Outline,
    /// Not so when time ran out.
    pub lasting: bool,
}

/// Outlines a file; none when `stopped` says that nobody waits any more. `path` is only looked at for customs of
/// naming.
pub fn outline(
    language: Language,
    path: &str,
    source: &[u8],
    stopped: &dyn Fn() -> bool,
) -> Option<Parsed> {
    let started = worked();
    let late = || worked().saturating_sub(started) > TIME;
    let all = lines(source);
    let whole_text = in_utf8(source);
    let (source, lossy) = (&*whole_text, matches!(whole_text, Cow::Owned(_)));
    let mut found = Found::new(path, source, lossy);
    let (mut complete, mut lasting) = (false, true);
    match parse(language, source, &|| stopped() || late()) {
        Some(tree) => {
            let whole = walk(&tree, &mut Rules::new(language), &mut found, stopped)?;
            complete = whole && !tree.root_node().has_error() && !found.is_cut();
        }
        None if stopped() => return None,
        None => lasting = !late(),
    }
    let (symbols, imports) = found.into_parts();
    Some(Parsed { outline: Outline { language, lines: all, symbols, imports, complete }, lasting })
}

/// What the thread has worked so far.
pub(super) fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The source as a parser can read it. In one that is no UTF-8 each foreign byte is a letter, so that what stands
/// around it stays what it is; which letter nobody knows, and no name with one is told.
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
    let mut work = WORK + source.len() / BYTES_FOR_WORK;
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
    // Piece by piece, so that looking ahead to the end of the file again and again is counted.
    let mut read = |at: usize, _| {
        reads.set(reads.get() + 1);
        let rest = source.get(at..).unwrap_or_default();
        rest.get(..PIECE).unwrap_or(rest)
    };
    parser.parse_with_options(&mut read, None, Some(options))
}

/// Goes over the tree without recursion. False when something lay too deep; none when nobody waits.
fn walk(
    tree: &Tree,
    rules: &mut Rules,
    found: &mut Found<'_>,
    stopped: &dyn Fn() -> bool,
) -> Option<bool> {
    let mut cursor = tree.walk();
    let (mut depth, mut nodes, mut whole) = (0, 0_usize, true);
    loop {
        nodes += 1;
        if nodes.is_multiple_of(NODES) && stopped() {
            return None;
        }
        found.leave(depth);
        let node = cursor.node();
        let inside = match node.is_named() {
            true => rules.visit(node, found),
            false => Inside::Nothing,
        };
        whole &= depth < DEPTH;
        if depth < DEPTH && found.enter(depth, inside) && cursor.goto_first_child() {
            depth += 1;
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                rules.end(found);
                return Some(whole);
            }
            depth -= 1;
        }
    }
}

fn lines(source: &[u8]) -> u32 {
    let feeds = source.iter().filter(|byte| **byte == b'\n').count();
    let open = source.last().is_some_and(|last| *last != b'\n');
    u32::try_from(feeds + usize::from(open)).unwrap_or(u32::MAX)
}
