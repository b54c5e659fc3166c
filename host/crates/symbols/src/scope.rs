//! The outline of a file while it is built, and the scopes around the node that is visited.

use tree_sitter::{Node, Point};

use super::rules::Inside;
use super::{Import, Outline, Symbol, SymbolKind};

/// Maximum number of symbols and of imports of one file. Beyond it, the outline says that it is incomplete.
const MAX_SYMBOLS: usize = 5_000;
const MAX_IMPORTS: usize = 2_000;
/// Maximum number of bytes of a name or of the target of an import.
const MAX_NAME: usize = 200;
/// Maximum number of bytes of source that are read as one text.
const MAX_TEXT: usize = 16 << 10;

impl Outline {
    /// Returns whether the numbers of its parts are those of an outline that [`OutlineBuilder`] made.
    pub(super) fn is_bounded(&self) -> bool {
        let is_name = |name: &String| name.len() <= MAX_NAME + '…'.len_utf8();
        let is_bounded = |symbol: &Symbol| {
            is_name(&symbol.name) && symbol.container.as_ref().is_none_or(is_name)
        };
        self.symbols.len() <= MAX_SYMBOLS
            && self.symbols.iter().all(is_bounded)
            && are_bounded(&self.imports)
    }
}

pub(super) fn are_bounded(imports: &[Import]) -> bool {
    let is_name = |name: &String| name.len() <= MAX_NAME + '…'.len_utf8();
    imports.len() <= MAX_IMPORTS
        && imports.iter().all(|import| {
            is_name(&import.target)
                && import.names.len() <= MAX_IMPORTS
                && import.names.iter().all(is_name)
        })
}

pub(super) struct OutlineBuilder<'s> {
    source: &'s [u8],
    /// The file is not UTF-8, so letters other than ASCII are unknown.
    lossy: bool,
    /// The name of the file, without directories.
    pub(super) file: &'s str,
    symbols: Vec<Symbol>,
    imports: Vec<Import>,
    cut: bool,
    /// The scopes around the node, each with its depth in the tree.
    around: Vec<(usize, Scope)>,
}

enum Scope {
    /// A type or module, and whether other files can name its members.
    Container {
        name: String,
        exported: bool,
        is_type: bool,
    },
    Function,
    /// An export statement, whose direct declarations are exported.
    Export,
}

impl<'s> OutlineBuilder<'s> {
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

    /// Returns the text of a node. Bytes that are not UTF-8 are replaced, and a long text is cut.
    pub(super) fn text(&self, node: Node<'_>) -> String {
        let range = node.start_byte()..node.end_byte().min(node.start_byte() + MAX_TEXT);
        String::from_utf8_lossy(self.source.get(range).unwrap_or_default()).into_owned()
    }

    /// Returns the text of a node that is a plain name, or an empty text when it is too long or not UTF-8.
    pub(super) fn raw(&self, node: Node<'_>) -> &'s str {
        let bytes = self.source.get(node.byte_range()).filter(|bytes| bytes.len() <= MAX_NAME);
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Marks the outline as incomplete.
    pub(super) fn was_cut(&mut self) {
        self.cut = true;
    }

    /// Returns the text of a field of a node.
    pub(super) fn field(&self, node: Node<'_>, field: &str) -> Option<String> {
        node.child_by_field_name(field).map(|child| self.text(child))
    }

    /// Leaves the scopes of this depth and below.
    pub(super) fn leave(&mut self, depth: usize) {
        while self.around.last().is_some_and(|(at, _)| *at >= depth) {
            self.around.pop();
        }
    }

    /// Enters the scope of a node, and returns whether its children are to be visited.
    pub(super) fn enter(&mut self, depth: usize, inside: Inside) -> bool {
        let around = match inside {
            Inside::Nothing => return false,
            Inside::Look => return true,
            Inside::Type { name, exported } => Scope::Container { name, exported, is_type: true },
            Inside::Module { name, exported } => {
                Scope::Container { name, exported, is_type: false }
            }
            Inside::Function => Scope::Function,
            Inside::Export => Scope::Export,
        };
        self.around.push((depth, around));
        true
    }

    pub(super) fn in_function(&self) -> bool {
        self.around.iter().any(|(_, around)| matches!(around, Scope::Function))
    }

    /// Returns whether the node is directly in an export statement.
    pub(super) fn is_export(&self) -> bool {
        matches!(self.around.last(), Some((_, Scope::Export)))
    }

    fn container(&self) -> Option<(&str, bool, bool)> {
        self.around.iter().rev().find_map(|(_, around)| match around {
            Scope::Container { name, exported, is_type } => Some((&**name, *exported, *is_type)),
            _ => None,
        })
    }

    /// Returns the number of modules around the node that are written inside the file.
    pub(super) fn modules_around(&self) -> usize {
        let module = |around: &Scope| matches!(around, Scope::Container { is_type: false, .. });
        self.around.iter().filter(|(_, around)| module(around)).count()
    }

    /// Returns whether other files can name the type or module around the node.
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
        if self.symbols.len() >= MAX_SYMBOLS {
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

    /// Returns a name as it is listed. A name with unknown letters is left out, and a cut one ends in `…`.
    fn name(&mut self, text: &str) -> Option<String> {
        if self.lossy && !text.is_ascii() {
            self.cut = true;
            return None;
        }
        if text.len() <= MAX_NAME {
            return one_line(text);
        }
        self.cut = true;
        one_line(&text[..text.floor_char_boundary(MAX_NAME)]).map(|cut| cut + "…")
    }

    pub(super) fn import(&mut self, node: Node<'_>, target: &str, names: Vec<String>) {
        self.import_at(node.start_position().row, target, names);
    }

    pub(super) fn import_at(&mut self, row: usize, target: &str, names: Vec<String>) {
        if self.imports.len() >= MAX_IMPORTS {
            self.cut = true;
            return;
        }
        let Some(target) = self.name(target) else { return };
        let names = names.iter().take(MAX_IMPORTS).filter_map(|name| self.name(name)).collect();
        self.imports.push(Import { line: line(row), target, names });
    }

    /// Marks top-level symbols as exported, which a file may say after their definitions.
    pub(super) fn export(&mut self, exported: impl Fn(&str) -> bool) {
        for symbol in self.symbols.iter_mut().filter(|symbol| symbol.container.is_none()) {
            symbol.exported |= exported(&symbol.name);
        }
    }

    /// Marks exactly these top-level symbols as exported, because the file lists all its exports.
    pub(super) fn export_only(&mut self, exported: impl Fn(&str) -> bool) {
        for symbol in self.symbols.iter_mut().filter(|symbol| symbol.container.is_none()) {
            symbol.exported = exported(&symbol.name);
        }
    }
}

fn line(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns the end of a definition. Comments after the last statement of an indented block do not belong to it.
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

/// Replaces control characters by blanks. Returns `None` when nothing else is left.
fn one_line(text: &str) -> Option<String> {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}
