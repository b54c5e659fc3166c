//! What was found so far in a file, and what stands around the place that is looked at.

use tree_sitter::{Node, Point};

use super::rules::Inside;
use super::{Import, Symbol, SymbolKind};

/// Of one file; what is beyond is not listed and the outline says that it was cut.
const SYMBOLS: usize = 5_000;
const IMPORTS: usize = 2_000;
/// Bytes of a name, and of a target.
const NAME: usize = 200;
/// Bytes of a piece of source that is looked at as text.
const TEXT: usize = 16 << 10;

pub(super) struct Found<'s> {
    source: &'s [u8],
    /// Not in the file's own encoding: what is no ASCII in a name is not known.
    lossy: bool,
    /// The file's name and no more.
    pub(super) file: &'s str,
    symbols: Vec<Symbol>,
    imports: Vec<Import>,
    cut: bool,
    around: Vec<(usize, Around)>,
}

enum Around {
    /// A type or module; whether others can name what it holds.
    Container {
        name: String,
        exported: bool,
        is_type: bool,
    },
    Function,
    /// What is declared here directly is given away.
    Export,
}

impl<'s> Found<'s> {
    pub(super) fn new(path: &'s str, source: &'s [u8], lossy: bool) -> Self {
        let file = path.rsplit('/').next().unwrap_or(path);
        Self { source, lossy, file, symbols: vec![], imports: vec![], cut: false, around: vec![] }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(super) fn into_parts(mut self) -> (Vec<Symbol>, Vec<Import>) {
        self.symbols.sort_by_key(|symbol| symbol.first_line);
        self.imports.sort_by_key(|import| import.line);
        (self.symbols, self.imports)
    }

    /// Text of a node, what is no UTF-8 replaced, cut where it is too long for a name of anything.
    pub(super) fn text(&self, node: Node<'_>) -> String {
        let range = node.start_byte()..node.end_byte().min(node.start_byte() + TEXT);
        String::from_utf8_lossy(self.source.get(range).unwrap_or_default()).into_owned()
    }

    /// The text of a node that is a plain name; empty where it can be none.
    pub(super) fn raw(&self, node: Node<'_>) -> &'s str {
        let bytes = self.source.get(node.byte_range()).filter(|bytes| bytes.len() <= NAME);
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    pub(super) fn was_cut(&mut self) {
        self.cut = true;
    }

    /// The text of a node's field.
    pub(super) fn field(&self, node: Node<'_>, field: &str) -> Option<String> {
        node.child_by_field_name(field).map(|child| self.text(child))
    }

    pub(super) fn leave(&mut self, depth: usize) {
        while self.around.last().is_some_and(|(at, _)| *at >= depth) {
            self.around.pop();
        }
    }

    /// Whether to look at what is in there.
    pub(super) fn enter(&mut self, depth: usize, inside: Inside) -> bool {
        let around = match inside {
            Inside::Nothing => return false,
            Inside::Look => return true,
            Inside::Type { name, exported } => Around::Container { name, exported, is_type: true },
            Inside::Module { name, exported } => {
                Around::Container { name, exported, is_type: false }
            }
            Inside::Function => Around::Function,
            Inside::Export => Around::Export,
        };
        self.around.push((depth, around));
        true
    }

    pub(super) fn in_function(&self) -> bool {
        self.around.iter().any(|(_, around)| matches!(around, Around::Function))
    }

    /// Directly in something that is given away.
    pub(super) fn is_export(&self) -> bool {
        matches!(self.around.last(), Some((_, Around::Export)))
    }

    fn container(&self) -> Option<(&str, bool, bool)> {
        self.around.iter().rev().find_map(|(_, around)| match around {
            Around::Container { name, exported, is_type } => Some((&**name, *exported, *is_type)),
            _ => None,
        })
    }

    /// Modules that are written inside of the file, around the place.
    pub(super) fn modules_around(&self) -> usize {
        let module = |around: &Around| matches!(around, Around::Container { is_type: false, .. });
        self.around.iter().filter(|(_, around)| module(around)).count()
    }

    /// Whether others can name what is around.
    pub(super) fn is_around_exported(&self) -> bool {
        self.container().is_none_or(|(_, exported, _)| exported)
    }

    pub(super) fn is_in_type(&self) -> bool {
        self.container().is_some_and(|(_, _, is_type)| is_type)
    }

    pub(super) fn container_name(&self) -> Option<String> {
        self.container().map(|(name, ..)| name.to_owned())
    }

    pub(super) fn symbol(&mut self, node: Node<'_>, name: &str, kind: SymbolKind, exported: bool) {
        let container = self.container_name();
        self.symbol_in(node, name, kind, exported, container);
    }

    pub(super) fn symbol_in(
        &mut self,
        node: Node<'_>,
        name: &str,
        kind: SymbolKind,
        exported: bool,
        container: Option<String>,
    ) {
        if self.symbols.len() >= SYMBOLS {
            self.cut = true;
            return;
        }
        let Some(name) = self.name(name) else { return };
        let end = end(node);
        let (first_line, mut last_line) = (line(node.start_position().row), line(end.row));
        // Some nodes end with the newline behind them.
        if end.column == 0 && last_line > first_line {
            last_line -= 1;
        }
        let container = container.as_deref().and_then(|container| self.name(container));
        self.symbols.push(Symbol { name, kind, container, first_line, last_line, exported });
    }

    /// A name as it is written: one whose letters are not known is none, and one that is cut says so.
    fn name(&mut self, text: &str) -> Option<String> {
        if self.lossy && !text.is_ascii() {
            self.cut = true;
            return None;
        }
        if text.len() <= NAME {
            return one_line(text);
        }
        self.cut = true;
        one_line(&text[..text.floor_char_boundary(NAME)]).map(|cut| cut + "…")
    }

    pub(super) fn import(&mut self, node: Node<'_>, target: &str, names: Vec<String>) {
        self.import_at(node.start_position().row, target, names);
    }

    pub(super) fn import_at(&mut self, row: usize, target: &str, names: Vec<String>) {
        if self.imports.len() >= IMPORTS {
            self.cut = true;
            return;
        }
        let Some(target) = self.name(target) else { return };
        let names = names.iter().take(IMPORTS).filter_map(|name| self.name(name)).collect();
        self.imports.push(Import { line: line(row), target, names });
    }

    /// What is told to be given away further down.
    pub(super) fn export(&mut self, given: impl Fn(&str) -> bool) {
        for symbol in self.symbols.iter_mut().filter(|symbol| symbol.container.is_none()) {
            symbol.exported |= given(&symbol.name);
        }
    }

    /// Where the file itself lists what it gives away, nothing else at its top is.
    pub(super) fn export_only(&mut self, given: impl Fn(&str) -> bool) {
        for symbol in self.symbols.iter_mut().filter(|symbol| symbol.container.is_none()) {
            symbol.exported = given(&symbol.name);
        }
    }
}

fn line(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1)
}

/// Where a definition ends: comments behind the last statement of an indented block are none of it.
fn end(node: Node<'_>) -> Point {
    let mut at = node;
    loop {
        let mut last = last_child(at);
        while let Some(child) = last
            && child.kind() == "comment"
        {
            last = child.prev_sibling();
        }
        match last {
            Some(child) if child.end_byte() > child.start_byte() => at = child,
            _ => return at.end_position(),
        }
    }
}

fn last_child(node: Node<'_>) -> Option<Node<'_>> {
    node.child(node.child_count().checked_sub(1)?)
}

/// A name fit to be listed; none when nothing is left of it.
fn one_line(text: &str) -> Option<String> {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}
