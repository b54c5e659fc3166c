//! JSON Schemas of the output for programs, generated from the types. A test fails when `specs/schemas` differs.
//! `ACT_BLESS=1 cargo test --workspace --lib schema` writes them.

#![allow(clippy::unwrap_used, reason = "for tests alone: a test that cannot go on panics")]

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

/// Compares `specs/schemas/NAME.json` with the schema of `T`, or writes it.
#[track_caller]
pub fn holds<T: JsonSchema>(name: &str) {
    let schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    let generated = serde_json::to_string_pretty(&schema).unwrap() + "\n";
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
