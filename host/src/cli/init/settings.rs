//! Settings files of other programs, changed value by value: everything else in the file stays as it is, with its order,
//! its spacing and its comments.
//!
//! JSON is edited as a concrete syntax tree (`jsonc-parser`, which dprint and Deno use), TOML with `toml_edit`, which Cargo
//! uses. Both keep what they do not change byte for byte.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike};

/// Maximum nesting of a settings file. Parsers of trees use the stack for each level; no settings file has ten.
const DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, also with comments.
    Json,
    Toml,
    /// A file that belongs to act as a whole.
    Whole,
}

/// One value of act in a settings file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    /// The keys that lead to the object or the list that holds the value.
    pub(super) path: Vec<String>,
    /// The key of the value; `None` for an element of a list.
    pub(super) key: Option<String>,
    pub(super) value: Value,
}

impl Piece {
    pub(super) fn member(path: &[&str], key: &str, value: Value) -> Self {
        Self { path: owned(path), key: Some(key.to_owned()), value }
    }

    pub(super) fn element(path: &[&str], value: Value) -> Self {
        Self { path: owned(path), key: None, value }
    }

    /// Returns whether the other piece has the same place: the same key, or an element of the same list.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.path == other.path && self.key == other.key
    }

    /// The place in words.
    pub(super) fn place(&self) -> String {
        let keys = self.path.iter().chain(&self.key);
        keys.map(String::as_str).collect::<Vec<_>>().join(".")
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|key| (*key).to_owned()).collect()
}

/// The result of [`Settings::put`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Added,
    /// The very value is there already.
    There,
    /// Another value has this key.
    Taken,
}

/// The settings of one file.
pub(super) enum Settings {
    Json(CstRootNode),
    Toml(Box<DocumentMut>),
}

impl Settings {
    /// Reads a file; an empty text is an empty file.
    ///
    /// # Errors
    ///
    /// Why the text is no file of that format.
    pub(super) fn read(format: Format, text: &str) -> Result<Self, String> {
        if depth(text) > DEPTH {
            return Err(format!("it is nested deeper than {DEPTH} levels"));
        }
        match format {
            Format::Json | Format::Whole => {
                let options = ParseOptions {
                    allow_comments: true,
                    allow_trailing_commas: true,
                    allow_loose_object_property_names: false,
                    allow_missing_commas: false,
                    allow_single_quoted_strings: false,
                    allow_hexadecimal_numbers: false,
                    allow_unary_plus_numbers: false,
                    allow_bare_decimal_point_numbers: false,
                    allow_non_finite_numbers: false,
                    allow_extended_string_escapes: false,
                };
                let root = CstRootNode::parse(text, &options).map_err(|error| error.to_string())?;
                if root.value().is_some_and(|value| value.as_object().is_none()) {
                    return Err("it is no JSON object".to_owned());
                }
                Ok(Self::Json(root))
            }
            Format::Toml => {
                let document = text.parse::<DocumentMut>();
                let first = |error: toml_edit::TomlError| {
                    error.to_string().lines().next().unwrap_or_default().to_owned()
                };
                Ok(Self::Toml(Box::new(document.map_err(first)?)))
            }
        }
    }

    pub(super) fn text(&self) -> String {
        let text = match self {
            Self::Json(root) => root.to_string(),
            Self::Toml(document) => document.to_string(),
        };
        if text.is_empty() || text.ends_with('\n') { text } else { format!("{text}\n") }
    }

    /// Adds a value, unless it is there.
    ///
    /// # Errors
    ///
    /// Why the place cannot hold it: a key on the way has another kind of value, or is there twice.
    pub(super) fn put(&mut self, piece: &Piece) -> Result<Put, String> {
        match self {
            Self::Json(root) => put_json(root, piece),
            Self::Toml(document) => put_toml(document.as_table_mut(), piece),
        }
    }

    /// Removes a value if it is exactly the one of the piece, and the objects and lists around it that are empty then.
    /// Returns whether it was there.
    pub(super) fn take(&mut self, piece: &Piece) -> bool {
        match self {
            Self::Json(root) => {
                root.object_value().is_some_and(|object| take_json(&object, &piece.path, piece))
            }
            Self::Toml(document) => take_toml(document.as_table_mut(), &piece.path, piece),
        }
    }

    /// Returns the whole content as a value.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Json(root) => root.to_serde_value().unwrap_or_else(|| Value::Object(Map::new())),
            Self::Toml(document) => of_table(document.as_table()),
        }
    }
}

/// Returns how deep brackets are nested outside of strings. A bracket in a comment counts, which only refuses more.
fn depth(text: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    let (mut inside, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            // A string of JSON and TOML ends with its line, apart from TOML's strings of several lines.
            b'\n' => inside = false,
            b'[' | b'{' if !inside => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' if !inside => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

fn put_json(root: &CstRootNode, piece: &Piece) -> Result<Put, String> {
    let mut object = root.object_value_or_create().ok_or("it is no JSON object")?;
    let (last, way) = match (&piece.key, piece.path.split_last()) {
        (None, Some((last, way))) => (Some(last), way),
        _ => (None, &*piece.path),
    };
    for key in way {
        once(&object, key)?;
        object = object
            .object_value_or_create(key)
            .ok_or_else(|| format!("`{key}` is there and is no object"))?;
    }
    if let Some(list) = last {
        once(&object, list)?;
        let array = object
            .array_value_or_create(list)
            .ok_or_else(|| format!("`{list}` is there and is no list"))?;
        if array.elements().iter().any(|element| is(element, &piece.value)) {
            return Ok(Put::There);
        }
        append(&array, &piece.value);
        return Ok(Put::Added);
    }
    let key = piece.key.as_deref().unwrap_or_default();
    once(&object, key)?;
    match object.get(key).and_then(|found| found.value()) {
        Some(found) if is(&found, &piece.value) => Ok(Put::There),
        Some(_) => Ok(Put::Taken),
        None => {
            object.ensure_multiline();
            object.append(key, input(&piece.value));
            Ok(Put::Added)
        }
    }
}

fn append(array: &CstArray, value: &Value) {
    array.ensure_multiline();
    array.append(input(value));
}

/// Refuses a key that is there twice: programs differ in which one counts.
fn once(object: &CstObject, key: &str) -> Result<(), String> {
    let same = |property: &jsonc_parser::cst::CstObjectProp| {
        property.decoded_name().is_some_and(|name| name == key)
    };
    match object.properties().iter().filter(|property| same(property)).count() {
        0 | 1 => Ok(()),
        _ => Err(format!("`{key}` is there twice")),
    }
}

fn is(node: &CstNode, value: &Value) -> bool {
    node.to_serde_value().as_ref() == Some(value)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(object) => CstInputValue::Object(
            object.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}

/// Removes the value of the piece below `object`, to which `way` leads on, and what is empty then.
fn take_json(object: &CstObject, way: &[String], piece: &Piece) -> bool {
    match (way, &piece.key) {
        ([], Some(key)) => {
            let Some(found) = object.get(key) else { return false };
            let same = found.value().is_some_and(|value| is(&value, &piece.value));
            if same {
                found.remove();
            }
            same
        }
        ([list], None) => {
            let Some(array) = object.array_value(list) else { return false };
            let Some(found) = array.elements().into_iter().find(|one| is(one, &piece.value)) else {
                return false;
            };
            found.remove();
            if array.elements().is_empty()
                && let Some(property) = object.get(list)
            {
                property.remove();
            }
            true
        }
        ([key, rest @ ..], _) => {
            let Some(inner) = object.object_value(key) else { return false };
            let taken = take_json(&inner, rest, piece);
            if taken
                && inner.properties().is_empty()
                && let Some(property) = object.get(key)
            {
                property.remove();
            }
            taken
        }
        ([], None) => false,
    }
}

fn put_toml(mut table: &mut dyn TableLike, piece: &Piece) -> Result<Put, String> {
    let (last, way) = match (&piece.key, piece.path.split_last()) {
        (None, Some((last, way))) => (Some(last), way),
        _ => (None, &*piece.path),
    };
    for key in way {
        let mut new = Table::new();
        // Without a header of its own: `[mcp_servers.act]` says it all.
        new.set_implicit(true);
        table = table
            .entry(key)
            .or_insert(Item::Table(new))
            .as_table_like_mut()
            .ok_or_else(|| format!("`{key}` is there and is no table"))?;
    }
    if let Some(list) = last {
        let found = table.entry(list).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        if elements(found).contains(&piece.value) {
            return Ok(Put::There);
        }
        if let Some(array) = found.as_array_of_tables_mut() {
            array.push(as_table(&piece.value));
        } else if let Some(array) = found.as_array_mut() {
            array.push(as_inline(&piece.value));
        } else {
            return Err(format!("`{list}` is there and is no list"));
        }
        return Ok(Put::Added);
    }
    let key = piece.key.as_deref().unwrap_or_default();
    match table.get(key).map(of_item) {
        Some(found) if found == piece.value => Ok(Put::There),
        Some(_) => Ok(Put::Taken),
        None => {
            table.insert(key, as_item(&piece.value));
            Ok(Put::Added)
        }
    }
}

fn take_toml(table: &mut dyn TableLike, way: &[String], piece: &Piece) -> bool {
    match (way, &piece.key) {
        ([], Some(key)) => {
            let same = table.get(key).is_some_and(|found| of_item(found) == piece.value);
            if same {
                table.remove(key);
            }
            same
        }
        ([list], None) => {
            let Some(found) = table.get_mut(list) else { return false };
            let all = elements(found);
            let Some(at) = all.iter().position(|one| *one == piece.value) else { return false };
            if let Some(array) = found.as_array_of_tables_mut() {
                array.remove(at);
            } else if let Some(array) = found.as_array_mut() {
                array.remove(at);
            }
            if all.len() == 1 {
                table.remove(list);
            }
            true
        }
        ([key, rest @ ..], _) => {
            let Some(inner) = table.get_mut(key).and_then(Item::as_table_like_mut) else {
                return false;
            };
            let taken = take_toml(inner, rest, piece);
            if taken && inner.is_empty() {
                table.remove(key);
            }
            taken
        }
        ([], None) => false,
    }
}

fn elements(item: &Item) -> Vec<Value> {
    match of_item(item) {
        Value::Array(list) => list,
        _ => vec![],
    }
}

fn of_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => of_value(value),
        Item::Table(table) => of_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| of_table(table)).collect(),
    }
}

fn of_table(table: &dyn TableLike) -> Value {
    Value::Object(table.iter().map(|(key, item)| (key.to_owned(), of_item(item))).collect())
}

fn of_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(is) => (*is.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(list) => list.iter().map(of_value).collect(),
        toml_edit::Value::InlineTable(table) => of_table(table),
    }
}

fn as_item(value: &Value) -> Item {
    match value {
        Value::Object(_) => Item::Table(as_table(value)),
        Value::Array(list) if !list.is_empty() && list.iter().all(Value::is_object) => {
            Item::ArrayOfTables(list.iter().map(as_table).collect())
        }
        _ => Item::Value(as_inline(value)),
    }
}

fn as_table(value: &Value) -> Table {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str(), as_item(value))).collect()
}

fn as_inline(value: &Value) -> toml_edit::Value {
    match value {
        // TOML has no null, and no value of act is one.
        Value::Null => "".into(),
        Value::Bool(is) => (*is).into(),
        Value::Number(number) => number.as_i64().unwrap_or_default().into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => list.iter().map(as_inline).collect::<Array>().into(),
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| (key.as_str(), as_inline(value)));
            entries.collect::<InlineTable>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stop() -> Piece {
        let handler = json!({"type": "command", "command": "act verify", "timeout": 900});
        Piece::element(&["hooks", "Stop"], json!({"hooks": [handler]}))
    }

    fn server() -> Piece {
        Piece::member(&["mcpServers"], "act", json!({"command": "act", "args": ["mcp"]}))
    }

    fn put(format: Format, text: &str, pieces: &[Piece]) -> String {
        let mut settings = Settings::read(format, text).unwrap();
        for piece in pieces {
            assert_eq!(settings.put(piece), Ok(Put::Added));
            assert_eq!(settings.put(piece), Ok(Put::There));
        }
        settings.text()
    }

    fn taken(format: Format, text: &str, pieces: &[Piece]) -> String {
        let mut settings = Settings::read(format, text).unwrap();
        for piece in pieces {
            assert!(settings.take(piece), "{}", piece.place());
            assert!(!settings.take(piece));
        }
        settings.text()
    }

    // HOOK-21
    #[test]
    fn json_keeps_its_other_values_their_order_its_spacing_and_its_comments() {
        let before = "{\n    // mine\n    \"z\": 1.50,\n    \"hooks\": {\"Stop\": [{\"hooks\": []}], \"A\": []},\n    \"a\": {\"b\":2}\n}\n";
        let after = put(Format::Json, before, &[server(), stop()]);
        for kept in ["// mine", "\"z\": 1.50,", "\"a\": {\"b\":2}", "\"A\": []", "{\"hooks\": []}"]
        {
            assert!(after.contains(kept), "{kept} in {after}");
        }
        let z = after.find("\"z\"").unwrap();
        assert!(z < after.find("\"hooks\"").unwrap() && z < after.find("\"a\"").unwrap());
        let value = Settings::read(Format::Json, &after).unwrap().value();
        assert_eq!(value["mcpServers"]["act"], server().value);
        assert_eq!(value["hooks"]["Stop"][1], stop().value);
        let undone = taken(Format::Json, &after, &[server(), stop()]);
        let undone = Settings::read(Format::Json, &undone).unwrap().value();
        assert_eq!(undone, Settings::read(Format::Json, before).unwrap().value());
    }

    // HOOK-21
    #[test]
    fn toml_keeps_its_comments_and_its_own_hooks() {
        let before = "# mine\nmodel = \"m\" # why\n\n[[hooks.Stop]]\n\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"say\"\n\n[mcp_servers.other]\ncommand = \"x\"\n";
        let server =
            Piece::member(&["mcp_servers"], "act", json!({"command": "act", "args": ["mcp"]}));
        let after = put(Format::Toml, before, &[server.clone(), stop()]);
        for kept in ["# mine\nmodel = \"m\" # why", "command = \"say\"", "[mcp_servers.other]"] {
            assert!(after.contains(kept), "{kept} in {after}");
        }
        assert!(
            after.contains("[mcp_servers.act]\n") && after.contains("timeout = 900"),
            "{after}"
        );
        let value = Settings::read(Format::Toml, &after).unwrap().value();
        assert_eq!(value["hooks"]["Stop"][1], stop().value);
        let undone = taken(Format::Toml, &after, &[server, stop()]);
        let undone = Settings::read(Format::Toml, &undone).unwrap().value();
        assert_eq!(undone, Settings::read(Format::Toml, before).unwrap().value());
    }

    #[test]
    fn an_empty_file_becomes_one_and_is_empty_again() {
        let after = put(Format::Json, "", &[server(), stop()]);
        assert_eq!(
            serde_json::from_str::<Value>(&after).unwrap()["mcpServers"]["act"],
            server().value
        );
        assert_eq!(taken(Format::Json, &after, &[server(), stop()]).trim(), "{}");
        let after = put(Format::Toml, "", &[stop()]);
        assert_eq!(taken(Format::Toml, &after, &[stop()]), "");
    }

    // HOOK-22, line 375
    #[test]
    fn what_cannot_hold_the_value_is_refused_and_another_value_stays() {
        let refused = |format, text: &str, piece: &Piece| {
            Settings::read(format, text).and_then(|mut settings| settings.put(piece)).unwrap_err()
        };
        assert!(refused(Format::Json, "[]", &server()).contains("no JSON object"));
        assert!(refused(Format::Json, "{\"hooks\": 3}", &stop()).contains("`hooks`"));
        assert!(refused(Format::Json, "{\"hooks\": {\"Stop\": {}}}", &stop()).contains("no list"));
        assert!(refused(Format::Json, "{\"hooks\": {}, \"hooks\": {}}", &stop()).contains("twice"));
        assert!(refused(Format::Json, "{\"a\": tru", &stop()).len() > 3);
        assert!(refused(Format::Toml, "hooks = 3", &stop()).contains("`hooks`"));
        assert!(refused(Format::Toml, "a = ", &stop()).contains("TOML"));
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(refused(Format::Json, &deep, &stop()).contains("nested"));
        let mut other = Settings::read(Format::Json, "{\"mcpServers\": {\"act\": {}}}").unwrap();
        assert_eq!(other.put(&server()), Ok(Put::Taken));
        assert!(!other.take(&server()));
    }
}
