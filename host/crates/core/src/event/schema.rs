//! JSON Schemas of the output for programs, generated from the types. A test fails when `specs/schemas` differs.
//! `ACT_BLESS=1 cargo test --workspace --lib schema` writes them.

#![allow(clippy::unwrap_used, reason = "for tests alone: a test that cannot go on panics")]

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::Document;
use crate::document::with_version;

/// Compares the schema of a document, with its version, with the file of its name in `specs/schemas`, or writes it.
#[track_caller]
pub fn document_holds<T: Document + JsonSchema>() {
    let mut schema = schema_of::<T>();
    with_version(schema.ensure_object());
    is_written(T::NAME, &schema);
}

/// Compares `specs/schemas/NAME.json` with the schema of `T`, which is printed without a version of its own, or writes it.
#[track_caller]
pub fn holds<T: JsonSchema>(name: &str) {
    is_written(name, &schema_of::<T>());
}

fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

#[track_caller]
fn is_written(name: &str, schema: &Schema) {
    let generated = serde_json::to_string_pretty(schema).unwrap() + "\n";
    let path = crate::testing::checkout().join(format!("specs/schemas/{name}.json"));
    if std::env::var_os("ACT_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "specs/schemas/{name}.json differs from the types; write it with \
         `ACT_BLESS=1 cargo test --workspace --lib schema`"
    );
}
